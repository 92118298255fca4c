// Sandboxes: one class for each language.
import { randomBytes } from 'node:crypto';
import { Connection } from './connection.js';
import { CommandExecution, Execution } from './execution.js';

class Command {
  #call;

  constructor(call) {
    this.#call = call;
  }

  /** Runs a program without a shell. One that is missing or takes too long is an error. */
  async run(command, args = [], timeout = undefined) {
    return new CommandExecution(await this.#call('sandbox.command.run', { command, args, timeout }));
  }
}

class Files {
  #call;

  constructor(call) {
    this.#call = call;
  }

  /** The contents as a Buffer. */
  async read(path) {
    const { content } = await this.#call('sandbox.file.read', { path, encoding: 'base64' });
    return Buffer.from(content, 'base64');
  }

  /** Text or bytes; folders on the way are made. */
  async write(path, content) {
    await this.#call('sandbox.file.write',
      { path, content: Buffer.from(content).toString('base64'), encoding: 'base64' });
  }

  async list(path = '.', depth = 1) {
    return (await this.#call('sandbox.file.list', { path, depth })).entries;
  }

  async remove(path, { recursive = false } = {}) {
    await this.#call('sandbox.file.remove', { path, recursive });
  }
}

class Metrics {
  #call;

  constructor(call) {
    this.#call = call;
  }

  async all() {
    return (await this.#call('sandbox.metrics.get', {})).sandboxes[0] ?? {};
  }

  /** Percent of one processor, or null. */
  async cpu() {
    return (await this.all()).cpu_usage ?? null;
  }

  /** MiB, or null. */
  async memory() {
    return (await this.all()).memory_usage ?? null;
  }

  /** Bytes, or null. */
  async disk() {
    return (await this.all()).disk_usage ?? null;
  }

  async isRunning() {
    return (await this.all()).running === true;
  }
}

export class BaseSandbox {
  #connection;
  #options;
  #started = false;

  constructor(options = {}) {
    this.#options = {
      namespace: 'default',
      name: `sandbox-${randomBytes(4).toString('hex')}`,
      ...Object.fromEntries(Object.entries(options).filter(([, value]) => value != null)),
    };
    this.#connection = new Connection(options.serverUrl, options.apiKey);
    const call = (method, params) => this.#call(method, params);
    this.command = new Command(call);
    this.files = new Files(call);
    this.metrics = new Metrics(call);
  }

  /** Starts a sandbox with these options; stop() ends it, or `await using` where there is that. */
  static async create(options = {}) {
    const sandbox = new this(options);
    await sandbox.start();
    return sandbox;
  }

  get isStarted() {
    return this.#started;
  }

  get serverUrl() {
    return this.#connection.url;
  }

  get apiKey() {
    return this.#connection.key;
  }

  get namespace() {
    return this.#options.namespace;
  }

  get name() {
    return this.#options.name;
  }

  async start(image = undefined, memory = undefined, cpus = undefined, timeout = undefined) {
    if (this.#started) return;
    const { config, ...asked } = this.#options;
    const settings = {
      image: image ?? asked.image ?? this.defaultImage,
      memory: Math.round(memory ?? asked.memory ?? 512),
      cpus: Math.max(1, Math.round(cpus ?? asked.cpus ?? 1)),
      ...config,
    };
    const seconds = timeout ?? asked.timeout ?? 180;
    const answer = await this.#connection.call('sandbox.start', { ...this.#place(), config: settings },
      AbortSignal.timeout((seconds + 30) * 1000));
    if (answer.includes('timed out waiting')) process.emitWarning(`Sandbox start: ${answer}`);
    this.#started = true;
  }

  async stop() {
    if (!this.#started) return;
    this.#started = false;
    await this.#connection.call('sandbox.stop', this.#place());
  }

  /** Runs code; variables stay for the next run. timeout: seconds. */
  async run(code, { timeout } = {}) {
    return new Execution(
      await this.#call('sandbox.repl.run', { language: this.language, code, timeout }));
  }

  /** The same, as events while it runs: {event: "output" | "result" | "end", data}. */
  async* stream(code, { timeout, signal } = {}) {
    this.#checkStarted();
    yield* this.#connection.events('sandbox.repl.stream',
      { ...this.#place(), language: this.language, code, timeout }, signal);
  }

  #place() {
    return { namespace: this.namespace, sandbox: this.name };
  }

  #checkStarted() {
    if (!this.#started) throw new Error('the sandbox is not started; call start() first');
  }

  async #call(method, params) {
    this.#checkStarted();
    return this.#connection.call(method, { ...this.#place(), ...params });
  }
}

if (Symbol.asyncDispose) {
  BaseSandbox.prototype[Symbol.asyncDispose] = BaseSandbox.prototype.stop;
}

export class PythonSandbox extends BaseSandbox {
  get language() {
    return 'python';
  }

  get defaultImage() {
    return 'microsandbox/python';
  }
}

export class NodeSandbox extends BaseSandbox {
  get language() {
    return 'nodejs';
  }

  get defaultImage() {
    return 'microsandbox/node';
  }
}
