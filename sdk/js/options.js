// Options for people who like to build them step by step.
const NAMES = ['serverUrl', 'namespace', 'name', 'apiKey', 'image', 'memory', 'cpus', 'timeout'];

class SandboxOptionsBuilder {
  #options = {};

  constructor() {
    for (const name of NAMES) {
      this[name] = (value) => {
        this.#options[name] = value;
        return this;
      };
    }
  }

  build() {
    return { ...this.#options };
  }
}

export class SandboxOptions {
  static builder() {
    return new SandboxOptionsBuilder();
  }
}
