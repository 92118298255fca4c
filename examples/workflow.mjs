#!/usr/bin/env node
// Start a sandbox, run code and a command in it, stop it. Needs nothing but Node 18 or newer.
// MSB_SERVER_URL says where the server is (http://127.0.0.1:5555), MSB_API_KEY has a key for it.
const url = process.env.MSB_SERVER_URL ?? 'http://127.0.0.1:5555';
const key = process.env.MSB_API_KEY ?? '';

async function call(method, params) {
  const answer = await fetch(`${url}/api/v1/rpc`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  const message = await answer.json();
  if (message.error) throw new Error(message.error.message);
  return message.result;
}

const textOf = (result) => result.output.map((line) => line.text).join('\n');
const sandbox = `example-${process.pid}`;

console.log(await call('sandbox.start', { sandbox, config: { image: 'microsandbox/python' } }));
try {
  await call('sandbox.repl.run', { sandbox, language: 'python', code: 'x = 6' });
  console.log(textOf(await call('sandbox.repl.run', { sandbox, language: 'python', code: 'x * 7' })));
  console.log(textOf(await call('sandbox.command.run', { sandbox, command: 'echo', args: ['hello'] })));
} finally {
  console.log(await call('sandbox.stop', { sandbox }));
}
