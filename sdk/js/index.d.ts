export interface SandboxSettings {
  serverUrl?: string;
  namespace?: string;
  name?: string;
  apiKey?: string;
  image?: string;
  /** MiB */
  memory?: number;
  cpus?: number;
  /** Seconds that a start may take. */
  timeout?: number;
  /** Further settings of sandbox.start, see docs/api.md. */
  config?: Record<string, unknown>;
}

export interface OptionsBuilder {
  serverUrl(value: string): this;
  namespace(value: string): this;
  name(value: string): this;
  apiKey(value: string): this;
  image(value: string): this;
  memory(value: number): this;
  cpus(value: number): this;
  timeout(value: number): this;
  build(): SandboxSettings;
}

export class SandboxOptions {
  static builder(): OptionsBuilder;
}

export class SandboxError extends Error {
  code?: string;
  hint?: string;
  data: Record<string, unknown>;
}

declare class Output {
  output(): Promise<string>;
  error(): Promise<string>;
}

export class Execution extends Output {
  readonly status: string;
  readonly language: string;
  readonly results: Array<Record<string, unknown>>;
  hasError(): boolean;
}

export class CommandExecution extends Output {
  readonly command: string;
  readonly args: string[];
  readonly exitCode: number;
  readonly success: boolean;
}

export interface SandboxMetrics {
  namespace?: string;
  name?: string;
  running?: boolean;
  cpu_usage?: number | null;
  memory_usage?: number | null;
  disk_usage?: number | null;
}

export interface FileEntry {
  name: string;
  path: string;
  type: string;
  size: number;
}

export type StreamEvent =
  | { event: 'output'; data: { stream: 'stdout' | 'stderr'; text: string } }
  | { event: 'result' | 'end'; data: Record<string, unknown> };

export class BaseSandbox {
  constructor(options?: SandboxSettings);
  static create<T extends typeof BaseSandbox>(this: T, options?: SandboxSettings): Promise<InstanceType<T>>;
  readonly isStarted: boolean;
  readonly serverUrl: string;
  readonly namespace: string;
  readonly name: string;
  readonly apiKey?: string;
  readonly command: {
    run(command: string, args?: string[], timeout?: number): Promise<CommandExecution>;
  };
  readonly files: {
    read(path: string): Promise<Buffer>;
    write(path: string, content: string | Uint8Array): Promise<void>;
    list(path?: string, depth?: number): Promise<FileEntry[]>;
    remove(path: string, options?: { recursive?: boolean }): Promise<void>;
  };
  readonly metrics: {
    all(): Promise<SandboxMetrics>;
    cpu(): Promise<number | null>;
    memory(): Promise<number | null>;
    disk(): Promise<number | null>;
    isRunning(): Promise<boolean>;
  };
  start(image?: string, memory?: number, cpus?: number, timeout?: number): Promise<void>;
  stop(): Promise<void>;
  run(code: string, options?: { timeout?: number }): Promise<Execution>;
  stream(code: string, options?: { timeout?: number; signal?: AbortSignal }): AsyncIterable<StreamEvent>;
}

export class PythonSandbox extends BaseSandbox {}
export class NodeSandbox extends BaseSandbox {}

export const SandboxFlavor: Readonly<{ SMALL: 'small'; MEDIUM: 'medium'; LARGE: 'large' }>;
export type Flavor = 'small' | 'medium' | 'large';

export interface WrapperConfig {
  serverUrl?: string;
  apiKey?: string;
  /** Seconds without a call after which a session ends. */
  sessionTimeout?: number;
  maxConcurrentSessions?: number;
  defaultFlavor?: Flavor;
  sandboxStartTimeout?: number;
  defaultExecutionTimeout?: number;
  maxTotalMemoryMb?: number;
  /** HOST:GUEST */
  sharedVolumeMappings?: string[];
  enableLruEviction?: boolean;
}

export interface CallOptions {
  template?: string;
  sessionId?: string;
  flavor?: Flavor;
  timeout?: number;
}

export interface ExecutionResult {
  sessionId: string;
  stdout: string;
  stderr: string;
  success: boolean;
  exitCode: number;
  executionTimeMs: number;
  sessionCreated: boolean;
  template: string | null;
  results: Array<Record<string, unknown>>;
}

export interface CommandResult extends ExecutionResult {
  command: string;
  args: string[];
}

export interface SessionInfo {
  sessionId: string;
  template: string | null;
  flavor: Flavor;
  status: string;
  createdAt: string;
  lastAccessed: string;
  namespace: string;
  sandboxName: string;
}

export interface ResourceStats {
  activeSessions: number;
  maxSessions: number;
  sessionsByFlavor: Record<string, number>;
  totalMemoryMb: number;
  totalCpus: number;
  uptimeSeconds: number;
}

export class MicrosandboxWrapper {
  constructor(config?: WrapperConfig);
  readonly config: WrapperConfig;
  executeCode(code: string, options?: CallOptions): Promise<ExecutionResult>;
  executeCommand(command: string, args?: string[], options?: CallOptions): Promise<CommandResult>;
  getSessions(sessionId?: string): Promise<SessionInfo[]>;
  stopSession(sessionId: string): Promise<boolean>;
  getResourceStats(): Promise<ResourceStats>;
  getVolumeMappings(): Promise<Array<{ hostPath: string; containerPath: string }>>;
  cleanupOrphanSandboxes(): Promise<number>;
  pauseBackgroundTasks(): Promise<Record<string, unknown>>;
  resumeBackgroundTasks(): Promise<Record<string, unknown>>;
  restartBackgroundTasks(): Promise<Record<string, unknown>>;
  getBackgroundTaskStatus(): Promise<Record<string, unknown>>;
  healthCheck(): Promise<Record<string, unknown>>;
  stop(): Promise<void>;
}

export class MicrosandboxWrapperError extends Error {
  readonly errorCode: string;
  readonly category: string;
  readonly severity: string;
  readonly context: Record<string, unknown>;
  readonly recoverySuggestions: string[];
}
export class SandboxCreationError extends MicrosandboxWrapperError {}
export class CodeExecutionError extends MicrosandboxWrapperError {}
export class CommandExecutionError extends MicrosandboxWrapperError {}
export class ResourceLimitError extends MicrosandboxWrapperError {}
export class SessionNotFoundError extends MicrosandboxWrapperError {}
export class ConnectionError extends MicrosandboxWrapperError {}

/** Tools of LangChain: execute_python and install_packages. Needs @langchain/core. */
export function createSandboxTools(
  options?: { serverUrl?: string; apiKey?: string },
): Promise<unknown[]>;
