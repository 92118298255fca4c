// The tools for agents with the real @langchain/core, against the server at MSB_SERVER_URL.
import assert from 'node:assert/strict';
import test from 'node:test';
import { createSandboxTools, MicrosandboxWrapper } from 'microsandbox';

test('tools of LangChain', async () => {
  const [executePython, installPackages] = await createSandboxTools();
  assert.deepEqual([executePython.name, installPackages.name], ['execute_python', 'install_packages']);
  const config = { configurable: { session_id: 'agent-1' } };
  const wrapper = new MicrosandboxWrapper();
  try {
    const first = await executePython.invoke({ code: 'x = 41' }, config);
    assert.equal(first.success, true, JSON.stringify(first));
    const second = await executePython.invoke({ code: 'print(x + 1)' }, config);
    assert.equal(second.output.trim(), '42');
    const failed = await executePython.invoke({ code: '1/0' }, config);
    assert.equal(failed.success, false);
    assert.match(JSON.stringify(failed.error), /ZeroDivisionError/);
    const picture = await executePython.invoke({
      code: 'import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()',
    }, config);
    assert.ok(picture.artifacts.length > 0);
    const other = await executePython.invoke({ code: 'print(x)' });
    assert.equal(other.success, false);
    await assert.rejects(executePython.invoke({}, config));
    const refused = await installPackages.invoke({ packages: ['no-such-package-at-all'] }, config);
    assert.equal(refused.success, false);
  } finally {
    await wrapper.stopSession('agent-1');
    await wrapper.stopSession('default');
  }
});
