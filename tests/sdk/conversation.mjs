// One conversation with the server, the same for every SDK: each step is printed as "ok NAME" or "not ok NAME: why".

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";

const DESCRIPTION =
  "Evaluate Common Lisp code in a persistent REPL session. Definitions and variables persist across calls.";

// What the SDK's transport needs to start the shim: as little environment as a client would pass on.
export function server() {
  const env = {};
  for (const name of ["HOME", "PATH", "CL_MCPD_SOCKET", "XDG_STATE_HOME"]) env[name] = process.env[name];
  return { command: process.argv[2], args: [], env };
}

// Resolves as the promise does, or fails after a while with what was being waited for.
function within(seconds, what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${seconds} s: ${what}`)), seconds * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function textOf(result) {
  return result.content.map((block) => block.text).join("\n");
}

// What another client does meanwhile: it calls one tool and leaves.
async function elsewhere(name, args) {
  const { command, env } = server();
  const other = spawn(command, { env, stdio: ["pipe", "ignore", "inherit"] });
  const send = (message) => other.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const agreement = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "other", version: "1" } };
  send({ id: 1, method: "initialize", params: agreement });
  send({ id: 2, method: "tools/call", params: { name, arguments: args } });
  other.stdin.end();
  assert.equal((await once(other, "exit"))[0], 0);
}

// peer: {client, transport, connect(), call(params, options), agreed(), hear(method, handler), subscribe(uri)}; agreed()
// throws unless the revision is the wanted one; subscribe() resolves to what ends the subscription.
export async function converse(peer) {
  const { client, transport } = peer;
  const evaluate = (code, options, more = {}) =>
    peer.call({ name: "evaluate-lisp", arguments: { code, ...more } }, options);
  const errors = [];
  let failed = false;

  const steps = {
    async connect() {
      await peer.connect();
      client.onerror = (error) => errors.push(error);
      peer.agreed();
      assert.equal(client.getServerVersion().name, "cl-mcp-server");
      assert.deepEqual(client.getServerCapabilities(), {
        tools: {}, resources: { subscribe: true, listChanged: true }, completions: {},
      });
      assert.ok(client.getInstructions());
    },
    async "list tools"() {
      const tool = (await client.listTools()).tools.find((each) => each.name === "evaluate-lisp");
      assert.equal(tool.description, DESCRIPTION);
      assert.deepEqual(tool.inputSchema.required, ["code"]);
      assert.equal(tool.outputSchema.type, "object");
    },
    async evaluate() {
      assert.equal(textOf(await evaluate("(+ 1 2)")), "=> 3");
      assert.equal(textOf(await evaluate("(defun square (x) (* x x))")), "=> SQUARE");
      assert.equal(textOf(await evaluate("(square 7)")), "=> 49");
    },
    async error() {
      const result = await evaluate("(car 42)");
      assert.equal(result.isError, true);
      assert.match(textOf(result), /^\[ERROR\] TYPE-ERROR\nThe value 42 is not of type LIST\./);
    },
    async "unknown tool"() {
      await assert.rejects(peer.call({ name: "no-such-tool", arguments: {} }), (error) => {
        assert.equal(error.code, -32602);
        assert.match(error.message, /Unknown tool: no-such-tool/);
        return true;
      });
    },
    // The SDK itself rejects a result whose structuredContent does not fit the tool's outputSchema.
    async "structured content"() {
      const result = await evaluate('(progn (format t "out~%") (warn "w") (floor 17 5))');
      assert.deepEqual(result.structuredContent.values, ["3", "2"]);
      assert.match(result.structuredContent.session, /^session-\d{8}-\d{6}-[0-9A-F]{4}$/);
      assert.equal(result.structuredContent.stdout.trim(), "out");
      assert.ok((await evaluate("(values)")).structuredContent);
    },
    async "text beyond ASCII"() {
      assert.equal(textOf(await evaluate('"naïve λ 漢字 😀"')), '=> "naïve λ 漢字 😀"');
      const result = await evaluate('(ext:system "head -c 100000 /dev/urandom")');
      assert.match(textOf(result), /^\[stdout\]/);
    },
    async resources() {
      await evaluate("(car 42)");
      const { resources } = await client.listResources();
      const mine = resources.find((each) => /^lisp:\/\/session\/[^/]*$/.test(each.uri));
      assert.equal(resources[0].uri, "lisp://sessions");
      const read = async (uri) => (await client.readResource({ uri })).contents[0].text;
      assert.ok(mine.uri.endsWith(JSON.parse(await read("lisp://sessions")).sessions[0].id));
      assert.match(await read(`${mine.uri}/definitions`), /SQUARE/);
      assert.match(await read(`${mine.uri}/transcript`), /\(square 7\)/);
      assert.match(await read(`${mine.uri}/last-error`), /The value 42 is not of type LIST\./);
      await assert.rejects(read("lisp://session/session-20260120-143022-A4F2"), { message: /Resource not found/ });
      const { resourceTemplates } = await client.listResourceTemplates();
      const ref = { type: "ref/resource", uri: resourceTemplates[0].uriTemplate };
      const { completion } = await client.complete({ ref, argument: { name: "id", value: "session-" } });
      assert.ok(completion.values.some((id) => mine.uri.endsWith(id)));
    },
    async updates() {
      const heard = {};
      const expected = ["list_changed", "updated"].map((kind) => new Promise((resolve) => {
        peer.hear(`notifications/resources/${kind}`, ({ params }) => resolve((heard[kind] = params?.uri)));
      }));
      const close = await peer.subscribe("lisp://sessions");
      await elsewhere("create-session", { name: "made elsewhere" });
      await within(10, "the updates", Promise.all(expected));
      assert.equal(heard.updated, "lisp://sessions");
      assert.ok((await client.listResources()).resources.some((each) => each.name === "made elsewhere"));
      await close();
    },
    async progress() {
      const ticks = [];
      const code = '(progn (format t "a line~%") (sleep 2.5) :done)';
      const result = await evaluate(code, { onprogress: (tick) => ticks.push(tick) });
      assert.match(textOf(result), /=> :DONE$/);
      assert.ok(ticks.length >= 2, `${ticks.length} ticks`);
      assert.ok(ticks.every((tick, n) => n === 0 || tick.progress > ticks[n - 1].progress));
      assert.match(ticks[0].message, /a line/);
    },
    async cancel() {
      const stop = new AbortController();
      let began;
      const running = new Promise((resolve) => (began = resolve));
      const loop = evaluate("(loop)", { signal: stop.signal, onprogress: () => began() });
      await within(10, "the loop runs", running);
      stop.abort("enough");
      await assert.rejects(loop);
      assert.equal(textOf(await within(5, "the next evaluation", evaluate("(square 6)"))), "=> 36");
    },
    async close() {
      const pid = transport.pid;
      const start = Date.now();
      await client.close();
      // The SDK waits 2 s before it sends SIGTERM: the end of its input must have been enough.
      assert.ok(Date.now() - start < 1500, `${Date.now() - start} ms`);
      if (pid) assert.throws(() => process.kill(pid, 0), { code: "ESRCH" });
    },
    // A message that the SDK could not make sense of would show up here.
    async "no complaints"() {
      assert.deepEqual(errors.map(String), []);
    },
  };

  for (const [name, step] of Object.entries(steps)) {
    try {
      await within(60, name, step());
      console.log(`ok ${name}`);
    } catch (error) {
      failed = true;
      console.log(`not ok ${name}: ${String(error.stack ?? error).replaceAll("\n", " | ")}`);
    }
  }
  process.exit(failed ? 1 : 0);
}
