// The chart demo with the clients that people use: upload a table, draw it, look at the picture.
//   mcp_sdk.mjs FOLDER-WITH-NODE-MODULES 1|2|2-auto stdio MSB
//   mcp_sdk.mjs FOLDER-WITH-NODE-MODULES 1|2|2-auto http URL
import assert from 'node:assert';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [folder, version, transport, place] = process.argv.slice(2);
const resolve = createRequire(`${folder}/`).resolve;
const load = name => import(pathToFileURL(resolve(name)));

async function parts() {
    if (version === '1') {
        const [client, stdio, http] = await Promise.all([
            load('@modelcontextprotocol/sdk/client/index.js'),
            load('@modelcontextprotocol/sdk/client/stdio.js'),
            load('@modelcontextprotocol/sdk/client/streamableHttp.js'),
        ]);
        return { ...client, ...stdio, ...http };
    }
    const [client, stdio] = await Promise.all([
        load('@modelcontextprotocol/client'),
        load('@modelcontextprotocol/client/stdio'),
    ]);
    return { ...client, ...stdio };
}

const { Client, StdioClientTransport, StreamableHTTPClientTransport } = await parts();
const options = version === '2-auto' ? { versionNegotiation: { mode: 'auto' } } : {};
const client = new Client({ name: 'demo', version: '1.0.0' }, options);
await client.connect(
    transport === 'stdio'
        ? new StdioClientTransport({ command: place, args: ['mcp'], env: process.env })
        : new StreamableHTTPClientTransport(new URL(place)),
);

const call = (name, args, more) =>
    version === '1'
        ? client.callTool({ name, arguments: args }, undefined, more)
        : client.callTool({ name, arguments: args }, more);

const { tools } = await client.listTools();
assert.equal(tools.length, 10);
const { prompts } = await client.listPrompts();
assert.equal(prompts.length, 2);

const uploaded = await call('sandbox_upload_file', {
    filename: 'sales.csv',
    content_base64: Buffer.from('month,sales\nJan,3\nFeb,5\nMar,4\n').toString('base64'),
});
const session_id = uploaded.structuredContent.session_id;
const seen = [];
const drawn = await call(
    'sandbox_run_python',
    {
        session_id,
        code: `import pandas as pd, matplotlib.pyplot as plt, time
table = pd.read_csv('sales.csv')
print('mean', table.sales.mean(), flush=True)
time.sleep(6)
table.plot.bar(x='month', y='sales')
plt.savefig('sales.png')
plt.show()`,
    },
    { onprogress: progress => seen.push(progress.message) },
);
assert.ok(drawn.content[0].text.startsWith('mean 4.0\n'), drawn.content[0].text);
const picture = drawn.content.find(block => block.type === 'image');
assert.equal(picture.mimeType, 'image/png');
assert.deepEqual([...Buffer.from(picture.data, 'base64').subarray(1, 4)], [...Buffer.from('PNG')]);
assert.ok(seen.includes('mean 4.0'), `progress: ${seen}`);

const uri = `sandbox://${session_id}/sales.png`;
const resources = [];
let cursor;
do {
    const page = await client.listResources(cursor ? { cursor } : undefined);
    resources.push(...page.resources);
    cursor = page.nextCursor;
} while (cursor);
assert.ok(resources.some(resource => resource.uri === uri));
const { contents } = await client.readResource({ uri });
assert.ok(contents[0].blob.length > 1000);
assert.deepEqual((await call('sandbox_close_session', { session_id })).structuredContent, { status: 'closed' });
await client.close();
console.log('shown');
