// Sessions of the JavaScript package against the server at MSB_SERVER_URL.
import assert from 'node:assert/strict';
import test from 'node:test';
import {
  CodeExecutionError, ConnectionError, MicrosandboxWrapper, ResourceLimitError, SandboxFlavor,
} from '../../sdk/js/index.js';

async function withWrapper(config, use) {
  const wrapper = new MicrosandboxWrapper(config);
  try {
    return await use(wrapper);
  } finally {
    await wrapper.stop();
  }
}

test('state in a session, and commands beside it', () => withWrapper({}, async (wrapper) => {
  const first = await wrapper.executeCode('x = 42', { flavor: SandboxFlavor.SMALL });
  assert.ok(first.success && first.sessionCreated);
  const { sessionId } = first;
  const second = await wrapper.executeCode('print(x)', { sessionId });
  assert.deepEqual([second.stdout, second.sessionCreated], ['42\n', false]);
  const done = await wrapper.executeCommand('echo', ['a b'], { sessionId });
  assert.deepEqual([done.stdout, done.exitCode, done.command, done.args], ['a b\n', 0, 'echo', ['a b']]);
  const [session] = await wrapper.getSessions(sessionId);
  assert.deepEqual([session.template, session.flavor, session.status], ['python', 'small', 'ready']);
  assert.ok((await wrapper.getResourceStats()).activeSessions >= 1);
  assert.equal(await wrapper.stopSession(sessionId), true);
  assert.equal(await wrapper.stopSession(sessionId), false);
}));

test('three at once', () => withWrapper({}, async (wrapper) => {
  const results = await Promise.all([
    wrapper.executeCode("print('one')"),
    wrapper.executeCode("print('two')"),
    wrapper.executeCode("console.log('three')", { template: 'node' }),
  ]);
  assert.deepEqual(results.map((one) => one.stdout), ['one\n', 'two\n', 'three\n']);
}));

test('errors', () => withWrapper(
  { maxConcurrentSessions: 1, enableLruEviction: false }, async (wrapper) => {
    const { sessionId } = await wrapper.executeCode('1');
    await assert.rejects(wrapper.executeCode('2'), (error) => error instanceof ResourceLimitError &&
      error.errorCode === 'RESOURCE_LIMIT_ERROR' && error.recoverySuggestions.length > 0);
    await assert.rejects(wrapper.executeCode('import time; time.sleep(60)', { sessionId, timeout: 1 }),
      (error) => error instanceof CodeExecutionError && error.context.error_type === 'timeout');
    await assert.rejects(new MicrosandboxWrapper({ serverUrl: 'http://127.0.0.1:1' }).healthCheck(),
      ConnectionError);
  }));

test('background tasks', () => withWrapper({}, async (wrapper) => {
  assert.equal((await wrapper.pauseBackgroundTasks()).status, 'success');
  assert.equal((await wrapper.resumeBackgroundTasks()).status, 'success');
  assert.equal((await wrapper.getBackgroundTaskStatus()).overall_status, 'healthy');
  assert.equal((await wrapper.healthCheck()).status, 'healthy');
  assert.equal(await wrapper.cleanupOrphanSandboxes(), 0);
}));
