#!/usr/bin/env node
// Runs the program of the platform package, and ends with it.
"use strict";

const { spawn } = require("child_process");
const fs = require("fs");
const os = require("os");
const tty = require("tty");

const SCOPE = "@switchboard-acp";

/** The name of this platform's package. `libc` is told apart by the dynamic loader, which every program needs. */
function platform() {
  const name = `${process.platform}-${process.arch}`;
  if (process.platform !== "linux") return name;
  const machine = { x64: "x86_64", arm64: "aarch64" }[process.arch];
  const glibc = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
  const isMusl = fs.existsSync(`/lib/ld-musl-${machine}.so.1`) && !glibc.some((path) => fs.existsSync(path));
  return isMusl ? `${name}-musl` : name;
}

function fail(message) {
  // Synchronous, so that it is written before the process ends.
  fs.writeSync(2, `switchboard-acp: ${message}\n`);
  process.exit(1);
}

/** The path of the program. */
function program() {
  if (process.env.SWITCHBOARD_BINARY) return process.env.SWITCHBOARD_BINARY;
  const name = platform();
  const known = Object.keys(require("./package.json").optionalDependencies);
  if (!known.includes(`${SCOPE}/${name}`)) {
    const names = known.map((entry) => entry.slice(SCOPE.length + 1)).join(", ");
    fail(`there is no package for ${name} (only for ${names}); build Switchboard from source instead`);
  }
  try {
    return require.resolve(`${SCOPE}/${name}/bin/switchboard`);
  } catch {
    return fail(
      `the package ${SCOPE}/${name} with the program is missing; it is an optional dependency, ` +
        "so install switchboard-acp again without --omit=optional and without --no-optional",
    );
  }
}

const path = program();
// Descriptor 3 is a pipe that nothing is written to. It ends with this process, also when that is killed, and the program then ends.
const child = spawn(path, process.argv.slice(2), {
  stdio: ["inherit", "inherit", "inherit", "pipe"],
  env: { ...process.env, SWITCHBOARD_LAUNCHER_FD: "3" },
});
child.stdio[3].on("error", () => {});
child.stdio[3].unref();
child.on("error", (error) => fail(`cannot start ${path}: ${error.message}`));
child.on("exit", (code, signal) => process.exit(signal ? 128 + os.constants.signals[signal] : code));

// `isatty` and not `process.stdin.isTTY`, which would change the mode of the stream that the program reads.
const isAtTerminal = [0, 1, 2].some((descriptor) => tty.isatty(descriptor));
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"]) {
  // A terminal sends these two to the program as well.
  const isSentToAll = isAtTerminal && (signal === "SIGINT" || signal === "SIGQUIT");
  process.on(signal, () => {
    if (!isSentToAll) child.kill(signal);
  });
}

// `npx` ends at SIGTERM without passing it on. Its children then get another parent.
if (process.env.npm_command === "exec") {
  const parent = process.ppid;
  const watch = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(watch);
    child.kill("SIGTERM");
  }, 500);
  watch.unref();
}
