// Vercel's AI SDK: `ai_sdk.mjs MODEL PROMPT…`, with a model such as anthropic:claude-sonnet-5-5
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
const here = createRequire(process.cwd() + "/");
const load = (name) => import(pathToFileURL(here.resolve(name)));
const { streamText, tool, isStepCount } = await load("ai");
const { z } = await load("zod");

const [named, ...prompts] = process.argv.slice(2);
const [provider, id] = named.split(":");
const model = (await load(`@ai-sdk/${provider}`))[provider](id);
const look = tool({
  description: "Return a page of the notes.",
  inputSchema: z.object({ page: z.number() }),
  execute: ({ page }) => `Page ${page}. ` + "The tide was measured at the pier at noon. ".repeat(40),
});
const system = { role: "system", content: "You read notes. ".repeat(300), providerOptions: { anthropic: { cacheControl: { type: "ephemeral" } } } };
let messages = [];
let failed = null;
for (const prompt of prompts) {
  messages.push({ role: "user", content: prompt });
  const onError = ({ error }) => (failed = error);
  const result = streamText({ model, instructions: system, messages, tools: { look }, stopWhen: isStepCount(9), onError });
  await result.consumeStream();
  if (failed) break;
  messages.push(...(await result.response).messages);
  console.log(await result.text);
}
if (failed) {
  console.error(String(failed));
  process.exit(3);
}
