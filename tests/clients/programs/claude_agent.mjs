// The Claude Agent SDK: `claude_agent.mjs MODEL PROMPT…`
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
const { query } = await import(pathToFileURL(createRequire(process.cwd() + "/").resolve("@anthropic-ai/claude-agent-sdk")));

const [model, ...prompts] = process.argv.slice(2);
let isError = false;
for (const [index, prompt] of prompts.entries()) {
  const options = { model, allowedTools: ["Read"], continue: index > 0 };
  for await (const message of query({ prompt, options }))
    if (message.type === "result") {
      isError = message.is_error;
      console.log(message.result);
    }
}
process.exit(isError ? 3 : 0);
