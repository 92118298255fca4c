// Runs code for the agent in one long-lived interpreter; driver.h describes the channel.
//
// Code is evaluated through the inspector's REPL mode, V8's own: let, const and class stay between
// calls, may be declared again, and await works at the top level. The inspector hands out
// references, so values come back through a function of ours that is called with them.
'use strict';
const fs = require('fs');
const inspector = require('inspector');
const net = require('net');
const { Console } = require('console');
const { createRequire } = require('module');
const { Writable } = require('stream');
const { clearImmediate, clearTimeout, setImmediate } = require('timers'); // whatever code replaces
const util = require('util');
const vm = require('vm');

const COMMANDS = 3;
const MESSAGES = 4;
const PIECE = 32768;
const OUR_FILES = `${__dirname}/node`;
const LATE_MAX = 10; // uncaught exceptions between two calls that are told

// Descriptor 4 blocks: output keeps its order, and a reader that is slow slows us down.
function send(kind, payload) {
  const message = Buffer.allocUnsafe(5 + payload.length);
  message[0] = kind.charCodeAt(0);
  message.writeUInt32LE(payload.length, 1);
  payload.copy(message, 5);
  for (let at = 0; at < message.length;) at += fs.writeSync(MESSAGES, message, at);
}

function sendOutput(kind, bytes) {
  for (let at = 0; at < bytes.length; at += PIECE) send(kind, bytes.subarray(at, at + PIECE));
}

function sendRecord(record) {
  send('j', Buffer.from(JSON.stringify(record)));
}

function openOutput(kind, fd) {
  const output = new Writable({
    decodeStrings: true,
    write(chunk, encoding, callback) {
      sendOutput(kind, chunk);
      callback();
    },
  });
  output.fd = fd;
  return output;
}

function replaceOutputs() {
  const stdout = openOutput('o', 1);
  const stderr = openOutput('e', 2);
  Object.defineProperty(process, 'stdout', { configurable: true, enumerable: true, value: stdout });
  Object.defineProperty(process, 'stderr', { configurable: true, enumerable: true, value: stderr });
  globalThis.console = new Console({ stdout, stderr, colorMode: false });
}

// V8's generator cannot be seeded, and copies of this process would all draw the same numbers.
const random = { state: new BigUint64Array(2) };

function seedRandom(bytes) {
  random.state[0] = bytes.readBigUInt64LE(0);
  random.state[1] = bytes.readBigUInt64LE(8) | 1n;
}

// xorshift128+
Math.random = function random_() {
  let a = random.state[0];
  const b = random.state[1];
  random.state[0] = b;
  a ^= BigInt.asUintN(64, a << 23n);
  random.state[1] = a ^ b ^ (a >> 17n) ^ (b >> 26n);
  return Number(BigInt.asUintN(64, random.state[1] + b) >> 11n) / 2 ** 53;
};
Object.defineProperty(Math.random, 'name', { value: 'random' });

// Timers that were set while a call runs. A call that is interrupted takes them along: otherwise
// what waits for them would go on later.
const timers = new Set();

function trackTimers(name, repeats) {
  const original = globalThis[name];
  const tracked = function tracked(callback, ...rest) {
    if (!call || typeof callback !== 'function') return original(callback, ...rest);
    const handle = original(function fire(...values) {
      if (!repeats) timers.delete(handle);
      return callback.apply(this, values);
    }, ...rest);
    timers.add(handle);
    return handle;
  };
  globalThis[name] = Object.defineProperties(tracked, Object.getOwnPropertyDescriptors(original));
}

function endTimers() {
  for (const handle of timers) {
    clearTimeout(handle);
    clearImmediate(handle);
  }
}

const session = new inspector.Session();
session.connect();
let caught;
let catcher;

function post(method, parameters) {
  let answer;
  session.post(method, parameters, (error, result) => {
    if (error) throw error;
    answer = result;
  });
  return answer;
}

function openCatcher() {
  const key = Symbol.for('msb.catcher');
  globalThis[key] = (value) => { caught = value; };
  const expression = 'globalThis[Symbol.for("msb.catcher")]';
  catcher = post('Runtime.evaluate', { expression }).result.objectId;
  delete globalThis[key];
}

// The value behind an inspector's reference.
function dereference(remote) {
  let argument = { value: remote.value };
  if (remote.objectId) argument = { objectId: remote.objectId };
  else if (remote.unserializableValue) argument = { unserializableValue: remote.unserializableValue };
  else if (remote.type === 'undefined') return undefined;
  caught = undefined;
  post('Runtime.callFunctionOn', {
    objectId: catcher,
    functionDeclaration: 'function (value) { this(value); }',
    arguments: [argument],
  });
  const value = caught;
  caught = undefined;
  return value;
}

function part(name) {
  return require(`./node_${name}.js`);
}

// Our own frames lie below the user's, in an error as in what caused it.
function cutStack(stack) {
  const kept = [];
  let isOurs = false;
  for (const line of stack.split('\n')) {
    const isFrame = /^\s+(at |\.\.\. \d+ lines matching)/.test(line);
    isOurs = isFrame && (isOurs || /^\s+\.\.\.|[( ]node:inspector:/.test(line) || line.includes(OUR_FILES));
    if (!isOurs) kept.push(line);
    else if (line.endsWith(' {')) kept[kept.length - 1] += ' {'; // properties follow
  }
  return kept.join('\n');
}

function traceOf(error) {
  if (error instanceof SystemExit) return '';
  if (error instanceof KeyboardInterrupt) return error.stack;
  try {
    return cutStack(util.inspect(error));
  } catch {
    return cutStack(String(error.stack));
  }
}

function describeError(error) {
  if (!(util.types.isNativeError(error) || error instanceof Error)) {
    const text = util.inspect(error);
    return { type: 'error', name: 'Uncaught', value: text, traceback: `Uncaught ${text}` };
  }
  return {
    type: 'error',
    name: String(error.name),
    value: String(error.message),
    traceback: traceOf(error),
  };
}

// What could not be compiled has no frames: its place is told by showing it.
function pointAt(error, details, code, filename) {
  if (!(error instanceof SyntaxError) || details.stackTrace) return error;
  const lines = code.split(/\r\n|[\n\r\u2028\u2029]/);
  const at = Math.min(details.lineNumber, lines.length - 1); // what lacks an end fails behind it
  const end = details.lineNumber < lines.length ? details.columnNumber : lines[at].length;
  const mark = lines[at].slice(0, end).replace(/[^\t]/g, ' ');
  error.stack = `${filename}:${at + 1}\n${lines[at]}\n${mark}^\n\n${error.stack}`;
  return error;
}

class KeyboardInterrupt extends Error {
  constructor() {
    super('interrupted');
    this.name = 'KeyboardInterrupt';
    this.stack = 'KeyboardInterrupt: interrupted';
  }
}

class SystemExit extends Error {
  constructor(code) {
    super(String(code === undefined ? process.exitCode || 0 : code));
    this.name = 'SystemExit';
  }
}

let call = null; // the one under way: { settle }
let count = 0;
const late = [];

function evaluate(code, filename, answered) {
  const begin = () => session.post('Runtime.evaluate', {
    expression: `${code}\n//# sourceURL=${filename}`,
    replMode: true,
    awaitPromise: true,
    objectGroup: 'call',
  }, answered);
  // The watchdog that ends endless loops on SIGINT works for scripts only, so one leads to us.
  globalThis[beginKey] = begin;
  try {
    interruptible.runInThisContext({ breakOnSigint: true });
  } catch (error) {
    answered(error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? new KeyboardInterrupt() : error);
  } finally {
    delete globalThis[beginKey];
  }
}

const beginKey = Symbol.for('msb.begin');
const interruptible = new vm.Script('globalThis[Symbol.for("msb.begin")]()', { filename: __filename });

// What is wrong with a script, if anything.
function compile(expression) {
  post('Runtime.enable');
  const script = { expression, sourceURL: '', persistScript: false };
  const { exceptionDetails } = post('Runtime.compileScript', script);
  post('Runtime.disable');
  return exceptionDetails;
}

// The value the code ended with; promises are waited for.
function valueOf(code, filename) {
  const script = code.includes('import') ? part('imports').translate(code, compile) : code;
  return new Promise((resolve, reject) => {
    evaluate(script, filename, (error, answer) => {
      if (error) return reject(error);
      try {
        const details = answer.exceptionDetails;
        if (details) return reject(pointAt(dereference(details.exception), details, code, filename));
        return resolve(dereference(answer.result));
      } catch (failure) {
        return reject(failure);
      }
    });
  });
}

function interruption() {
  return new Promise((resolve, reject) => { call = { fail: reject }; });
}

function show(value) {
  if (value === undefined) return undefined;
  if (value === null || ['number', 'boolean', 'bigint', 'symbol'].includes(typeof value)) {
    const text = util.inspect(value);
    return sendRecord({ type: 'result', text, data: { 'text/plain': text }, is_main: true });
  }
  return part('display').show(value, sendRecord);
}

// What nobody caught between two calls is told with the second.
function tellLate() {
  for (const text of late.splice(0)) {
    sendOutput('e', Buffer.from(`Uncaught, from an earlier call: ${text}\n`));
  }
}

function hexNumber(bytes, at) {
  return parseInt(bytes.toString('latin1', at, at + 8), 16);
}

// Sets variables for one call; gives back a function that undoes it.
function lend(block) {
  const before = new Map();
  for (const assignment of block.toString().split('\0').slice(0, -1)) {
    const at = assignment.indexOf('=');
    const name = assignment.slice(0, at);
    if (!before.has(name)) before.set(name, process.env[name]);
    process.env[name] = assignment.slice(at + 1);
  }
  return () => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  };
}

// The warning that this is an experiment would be about our code, not the user's.
function stripTypes(code) {
  const { stripTypeScriptTypes } = require('module');
  if (!stripTypeScriptTypes) throw new TypeScriptUnsupported();
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return stripTypeScriptTypes(code);
  } catch (error) {
    error.stack = String(error.stack).replace(/\n\s+at [^]*$/, '');
    throw error;
  } finally {
    process.emitWarning = emitWarning;
  }
}

class TypeScriptUnsupported extends Error {
  constructor() {
    super(`Node ${process.version} of this image cannot run TypeScript: it takes Node 22.13 or later`);
    this.name = 'TypeScriptUnsupported';
    this.stack = `${this.name}: ${this.message}`;
  }
}

async function run(payload, translate = (code) => code) {
  const start = 8 + hexNumber(payload, 0);
  const takeBack = lend(payload.subarray(8, start));
  const filename = `<call-${++count}>`;
  let exitCode = 0;
  tellLate();
  try {
    const interrupted = interruption();
    const code = translate(payload.subarray(start).toString());
    const value = await Promise.race([interrupted, valueOf(code, filename)]);
    await Promise.race([interrupted, show(value)]);
    // Promises that were rejected and not handled are reported after the others have run.
    await Promise.race([interrupted, new Promise(setImmediate)]);
  } catch (error) {
    if (error instanceof KeyboardInterrupt) endTimers();
    exitCode = error instanceof SystemExit ? Number(error.message) & 255 : 1;
    sendRecord(describeError(error));
  }
  call = null;
  timers.clear();
  takeBack();
  session.post('Runtime.releaseObjectGroup', { objectGroup: 'call' });
  send('d', Buffer.from([exitCode]));
}

async function rehearse(payload) {
  await run(payload);
  count = 0;
}

function offerModules() {
  const filename = `${process.cwd()}/[call]`;
  globalThis.require = createRequire(filename);
  globalThis.module = { exports: {}, filename, paths: globalThis.require.resolve.paths('x') };
  globalThis.exports = globalThis.module.exports;
  globalThis.__filename = filename;
  globalThis.__dirname = process.cwd();
}

// This process may be a copy of another: nothing random of before may go on.
function adopt(payload) {
  const [cwd, ...env] = payload.subarray(64).toString().split('\0').slice(0, -1);
  for (const assignment of env) {
    const at = assignment.indexOf('=');
    if (at < 0) delete process.env[assignment];
    else process.env[assignment.slice(0, at)] = assignment.slice(at + 1);
  }
  let failed = 0;
  try {
    if (cwd) process.chdir(cwd);
  } catch {
    failed = 1;
  }
  offerModules();
  seedRandom(Buffer.from(payload.toString('latin1', 0, 64), 'hex'));
  return failed;
}

function serve() {
  const handlers = { r: (code) => run(code), t: (code) => run(code, stripTypes), w: rehearse, n: adopt,
    a: (payload) => send('d', Buffer.from([adopt(payload)])) };
  const socket = new net.Socket({ fd: COMMANDS, readable: true, writable: false });
  let received = Buffer.alloc(0);
  socket.on('data', (bytes) => {
    received = received.length ? Buffer.concat([received, bytes]) : bytes;
    while (received.length >= 9) {
      const end = 9 + hexNumber(received, 1);
      if (received.length < end) break;
      const kind = String.fromCharCode(received[0]);
      const payload = received.subarray(9, end);
      received = received.subarray(end);
      handlers[kind](payload);
    }
  });
  socket.on('end', () => process.reallyExit(0));
}

function fail(error) {
  if (call) call.fail(error);
  else if (!(error instanceof SystemExit) && late.length < LATE_MAX) {
    late.push(describeError(error).traceback);
  }
}

process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);
process.on('SIGINT', () => { if (call) fail(new KeyboardInterrupt()); });
process.exit = (code) => { throw new SystemExit(code); };
globalThis.display = (value, options = {}) => part('display').display(value, options, sendRecord);
delete process.env.MSB_WARM;
seedRandom(require('crypto').randomBytes(32));
replaceOutputs();
openCatcher();
trackTimers('setTimeout', false);
trackTimers('setImmediate', false);
trackTimers('setInterval', true);
offerModules();
serve();
