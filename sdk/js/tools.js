// Tools for agent frameworks. The framework is loaded only when they are made.
import { Connection, SandboxError } from './connection.js';

const DEFAULT_SESSION = 'default';

async function post(connection, sessionId, operation, body, signal) {
  const path = `/api/v1/sessions/${encodeURIComponent(sessionId)}/sandbox/${operation}`;
  const answer = await connection.request(path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  });
  const result = await answer.json();
  if (!answer.ok) {
    const error = result.error ?? result;
    throw new SandboxError(error.message ?? JSON.stringify(result), error);
  }
  return result;
}

const sessionOf = (config) => config?.configurable?.session_id ?? DEFAULT_SESSION;

/**
 * Two tools for LangChain agents: execute_python(code) and install_packages(packages). They use the
 * session that `configurable.session_id` of the run's configuration names.
 */
export async function createSandboxTools({ serverUrl, apiKey } = {}) {
  const { tool } = await import('@langchain/core/tools');
  const connection = new Connection(serverUrl, apiKey);
  const executePython = tool(
    ({ code }, config) => post(connection, sessionOf(config), 'execute', { code }, config?.signal),
    {
      name: 'execute_python',
      description: 'Run Python code in a sandbox. Variables, files and installed packages stay for '
        + 'later calls. Print what you want to see; figures come back as images.',
      schema: {
        type: 'object',
        properties: { code: { type: 'string', description: 'Python code to run' } },
        required: ['code'],
      },
    });
  const installPackages = tool(
    ({ packages }, config) => post(connection, sessionOf(config), 'install', { packages }, config?.signal),
    {
      name: 'install_packages',
      description: 'Install Python packages with pip in the sandbox of execute_python.',
      schema: {
        type: 'object',
        properties: {
          packages: {
            type: 'array',
            items: { type: 'string' },
            description: 'Names as pip takes them, for example "requests" or "numpy==1.26.4"',
          },
        },
        required: ['packages'],
      },
    });
  return [executePython, installPackages];
}
