// Sessions of a server: code and commands in one call, without caring for sandboxes.
import { randomBytes } from 'node:crypto';
import { Connection, SandboxError } from './connection.js';

const DEFAULTS = {
  sessionTimeout: 3600,
  maxConcurrentSessions: 10,
  defaultFlavor: 'small',
  sandboxStartTimeout: 180,
  defaultExecutionTimeout: 1800,
  maxTotalMemoryMb: undefined,
  sharedVolumeMappings: [],
  enableLruEviction: true,
};
// What an answer may take beyond the time that its call may, in seconds.
const MARGIN = 30;

export const SandboxFlavor = Object.freeze({ SMALL: 'small', MEDIUM: 'medium', LARGE: 'large' });

/** One family of errors; codes, categories, severities and suggestions come from the server. */
export class MicrosandboxWrapperError extends Error {
  constructor(message, data = {}, cause = undefined) {
    super(message, { cause });
    this.name = this.constructor.name;
    this.errorCode = data.error_code ?? 'MICROSANDBOX_WRAPPER_ERROR';
    this.category = data.category ?? 'system';
    this.severity = data.severity ?? 'medium';
    this.context = data.context ?? {};
    this.recoverySuggestions = data.recovery_suggestions ?? (data.hint ? [data.hint] : []);
  }
}

export class SandboxCreationError extends MicrosandboxWrapperError {}
export class CodeExecutionError extends MicrosandboxWrapperError {}
export class CommandExecutionError extends MicrosandboxWrapperError {}
export class ResourceLimitError extends MicrosandboxWrapperError {}
export class SessionNotFoundError extends MicrosandboxWrapperError {}
export class ConnectionError extends MicrosandboxWrapperError {}

const CLASSES = {
  SANDBOX_CREATION_ERROR: SandboxCreationError,
  CODE_EXECUTION_ERROR: CodeExecutionError,
  COMMAND_EXECUTION_ERROR: CommandExecutionError,
  RESOURCE_LIMIT_ERROR: ResourceLimitError,
  SESSION_NOT_FOUND_ERROR: SessionNotFoundError,
  CONNECTION_ERROR: ConnectionError,
};

function translate(error) {
  if (error instanceof SandboxError) {
    const Kind = CLASSES[error.data.error_code] ?? MicrosandboxWrapperError;
    return new Kind(error.message, error.data, error);
  }
  return new ConnectionError(error.message, {
    error_code: 'CONNECTION_ERROR',
    category: 'network',
    severity: 'high',
    recovery_suggestions: ['Start the server: msb server start --detach', 'Check MSB_SERVER_URL'],
  }, error);
}

const camelCase = (name) => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
const withNames = (record) => Object.fromEntries(
  Object.entries(record).map(([name, value]) => [camelCase(name), value]));

export class MicrosandboxWrapper {
  #config;
  #connection;
  #sessions = new Set();
  #group = `wrapper-${randomBytes(8).toString('hex')}`;

  constructor(config = {}) {
    this.#config = { ...DEFAULTS, ...config };
    this.#connection = new Connection(config.serverUrl, config.apiKey);
  }

  get config() {
    return this.#config;
  }

  async executeCode(code, { template = 'python', sessionId, flavor, timeout } = {}) {
    const params = this.#session(template, sessionId, flavor, timeout);
    return this.#run('session.run_code', { code, ...params });
  }

  /** Without args the command is a line for the shell. */
  async executeCommand(command, args = [], { template = 'python', sessionId, flavor, timeout } = {}) {
    const params = this.#session(template, sessionId, flavor, timeout);
    return this.#run('session.run_command', { command, args, ...params });
  }

  async getSessions(sessionId = undefined) {
    const { sessions } = await this.#call('session.list');
    return sessions.filter((one) => !sessionId || one.session_id === sessionId).map(withNames);
  }

  /** False when there is no such session. */
  async stopSession(sessionId) {
    this.#sessions.delete(sessionId);
    try {
      await this.#call('session.stop', { session_id: sessionId });
    } catch (error) {
      if (error instanceof SessionNotFoundError) return false;
      throw error;
    }
    return true;
  }

  async getResourceStats() {
    return { ...withNames(await this.#call('session.statistics')),
      maxSessions: this.#config.maxConcurrentSessions };
  }

  async getVolumeMappings() {
    const own = this.#config.sharedVolumeMappings.map((text) => {
      const colon = text.indexOf(':');
      return { hostPath: text.slice(0, colon), containerPath: text.slice(colon + 1) };
    });
    return [...(await this.#call('session.volumes')).volumes.map(withNames), ...own];
  }

  async cleanupOrphanSandboxes() {
    return (await this.#call('session.orphans.clean')).cleaned;
  }

  pauseBackgroundTasks() {
    return this.#call('session.tasks.pause');
  }

  resumeBackgroundTasks() {
    return this.#call('session.tasks.resume');
  }

  restartBackgroundTasks() {
    return this.#call('session.tasks.restart');
  }

  getBackgroundTaskStatus() {
    return this.#call('session.tasks.status');
  }

  healthCheck() {
    return this.#call('session.tasks.health');
  }

  /** Ends the sessions that were made here. */
  async stop() {
    await Promise.allSettled([...this.#sessions].map((one) => this.stopSession(one)));
  }

  #session(template, sessionId, flavor, timeout) {
    const config = this.#config;
    return {
      template,
      session_id: sessionId,
      flavor: flavor ?? config.defaultFlavor,
      timeout: Math.round(timeout ?? config.defaultExecutionTimeout),
      wait: true,
      session_timeout: config.sessionTimeout,
      group: this.#group,
      max_sessions: config.maxConcurrentSessions,
      max_total_memory_mb: config.maxTotalMemoryMb,
      evict: config.enableLruEviction,
      volumes: config.sharedVolumeMappings.length ? config.sharedVolumeMappings : undefined,
    };
  }

  async #run(method, params) {
    const answer = await this.#call(method, params, params.timeout);
    this.#sessions.add(answer.session_id);
    return withNames(answer);
  }

  async #call(method, params = {}, seconds = 0) {
    const limit = (seconds + this.#config.sandboxStartTimeout + MARGIN) * 1000;
    try {
      return await this.#connection.call(method, params, AbortSignal.timeout(limit));
    } catch (error) {
      throw translate(error);
    }
  }
}

if (Symbol.asyncDispose) {
  MicrosandboxWrapper.prototype[Symbol.asyncDispose] = MicrosandboxWrapper.prototype.stop;
}
