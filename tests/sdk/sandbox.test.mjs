// The JavaScript package against the server at MSB_SERVER_URL.
import assert from 'node:assert/strict';
import test from 'node:test';
import { NodeSandbox, PythonSandbox, SandboxOptions } from '../../sdk/js/index.js';

async function withSandbox(Kind, use, options = {}) {
  const sandbox = await Kind.create(options);
  try {
    return await use(sandbox);
  } finally {
    await sandbox.stop();
  }
}

test('state, output and errors', () => withSandbox(PythonSandbox, async (sandbox) => {
  assert.match(sandbox.name, /^sandbox-[0-9a-f]{8}$/);
  assert.ok(sandbox.isStarted);
  const first = await sandbox.run("x = 41\nprint('  set  ')");
  assert.deepEqual([await first.output(), await first.error(), first.hasError()], ['set', '', false]);
  const second = await sandbox.run('x + 1', { timeout: 30 });
  assert.deepEqual([await second.output(), second.status, second.language], ['42', 'success', 'python']);
  const failed = await sandbox.run('1/0');
  assert.ok(failed.hasError());
  assert.match(await failed.error(), /ZeroDivisionError/);
}));

test('commands', () => withSandbox(PythonSandbox, async (sandbox) => {
  const done = await sandbox.command.run('sh', ['-c', 'echo out; echo err >&2; exit 3']);
  assert.deepEqual([await done.output(), await done.error(), done.exitCode, done.success],
    ['out', 'err', 3, false]);
  assert.deepEqual([done.command, done.args[0]], ['sh', '-c']);
  await assert.rejects(sandbox.command.run('no-such-program'));
  await assert.rejects(sandbox.command.run('sleep', ['60'], 1));
}));

test('files and metrics', () => withSandbox(PythonSandbox, async (sandbox) => {
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  await sandbox.files.write('folder/a.bin', bytes);
  assert.deepEqual(await sandbox.files.read('folder/a.bin'), bytes);
  assert.deepEqual((await sandbox.files.list('folder')).map((entry) => entry.name), ['a.bin']);
  await sandbox.files.remove('folder', { recursive: true });
  await assert.rejects(sandbox.files.read('folder/a.bin'), { code: 'not_found' });
  assert.equal((await sandbox.metrics.all()).name, sandbox.name);
  assert.ok(await sandbox.metrics.isRunning());
  assert.ok(await sandbox.metrics.memory() > 0);
}));

test('node, by options that were built', async () => {
  const options = SandboxOptions.builder().name('built').memory(512).cpus(1).timeout(180).build();
  await withSandbox(NodeSandbox, async (sandbox) => {
    assert.equal(sandbox.name, 'built');
    const done = await sandbox.run('console.log(1); [1, 2].map((n) => n * 2)');
    assert.equal(await done.output(), '1\n[ 2, 4 ]');
  }, options);
});

test('the explicit form', async () => {
  const sandbox = new NodeSandbox({ name: 'explicit-js' });
  await assert.rejects(sandbox.run('1'));
  await sandbox.start(undefined, 512, 1, 180);
  assert.equal(await (await sandbox.run('1')).output(), '1');
  await sandbox.stop();
  await sandbox.stop();
  assert.equal(sandbox.isStarted, false);
});

test('events while the code runs', () => withSandbox(PythonSandbox, async (sandbox) => {
  const events = [];
  for await (const event of sandbox.stream('for i in range(3): print(i)')) events.push(event);
  const printed = events.filter((one) => one.event === 'output').map((one) => one.data.text).join('');
  assert.equal(printed, '0\n1\n2\n');
  assert.equal(events.at(-1).data.status, 'success');
}));

test('wrong addresses', async () => {
  await assert.rejects(PythonSandbox.create({ serverUrl: 'http://127.0.0.1:1' }), /msb server start/);
  assert.throws(() => new PythonSandbox({ serverUrl: 'localhost:5555' }), TypeError);
});
