// Run code that nobody trusts in sandboxes of an msb server. Needs nothing but Node 18 or newer.
export { SandboxError } from './connection.js';
export { CommandExecution, Execution } from './execution.js';
export { SandboxOptions } from './options.js';
export { BaseSandbox, NodeSandbox, PythonSandbox } from './sandbox.js';
export {
  CodeExecutionError, CommandExecutionError, ConnectionError, MicrosandboxWrapper,
  MicrosandboxWrapperError, ResourceLimitError, SandboxCreationError, SandboxFlavor,
  SessionNotFoundError,
} from './wrapper.js';
export { createSandboxTools } from './tools.js';
