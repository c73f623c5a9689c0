import { framed, panel } from "warpmeter-ui";

const METHODS = ["get", "post", "put", "patch", "delete"];

export default {
  mixins: [panel],
  template: framed(
    `<p class="wm-muted">Programs send <code>Authorization: Bearer TOKEN</code> where tokens are set up. Times are relative (<code>-6h</code>), <code>now</code>, or ISO 8601. <a :href="source">openapi.json</a></p>
     <div v-for="group in groups" :key="group.tag">
       <h3>{{ group.tag }}</h3>
       <details v-for="each in group.endpoints" :key="each.method + each.path" class="wm-endpoint">
         <summary><b class="wm-mono">{{ each.method }}</b> <code>{{ each.path }}</code> <small>{{ each.summary }}</small></summary>
         <p v-if="each.description">{{ each.description }}</p>
         <div v-if="each.parameters.length" class="wm-scroll"><table class="wm-table">
           <thead><tr><th scope="col">Parameter</th><th scope="col">Type</th><th scope="col">Default</th><th scope="col">Meaning</th></tr></thead>
           <tbody><tr v-for="one in each.parameters" :key="one.name"><td><code>{{ one.name }}</code></td><td>{{ one.type }}</td><td>{{ one.byDefault }}</td><td>{{ one.meaning }}</td></tr></tbody>
         </table></div>
         <pre class="wm-scroll">{{ each.curl }}</pre>
       </details>
     </div>`,
    `<input type="search" aria-label="Search endpoints" placeholder="path or words" v-model="sought" />`,
  ),
  data: () => ({ every: [], sought: "" }),
  computed: {
    groups() {
      const words = this.sought.toLowerCase();
      const found = this.every.filter(({ path, summary, description }) => `${path} ${summary} ${description}`.toLowerCase().includes(words));
      const tags = [...new Set(found.map(({ tag }) => tag))];
      return tags.map((tag) => ({ tag, endpoints: found.filter((each) => each.tag === tag) }));
    },
  },
  methods: {
    draw(description) {
      this.every = Object.entries(description.paths).flatMap(([path, methods]) =>
        METHODS.filter((method) => methods[method]).map((method) => this.endpoint(path, method, methods[method], description)),
      );
    },
    endpoint(path, method, { tags = [], summary = "", description = "", parameters = [], requestBody }, whole) {
      const [first, ...rest] = description.split("\n");
      const body = requestBody && example(requestBody.content["application/json"]?.schema, whole);
      const data = body === undefined || !requestBody ? "" : ` \\\n  --json '${JSON.stringify(body)}'`;
      const filled = path.replace(/\{(\w+)\}/g, (_, name) => name.toUpperCase());
      return {
        path, method: method.toUpperCase(), tag: tags[0] ?? "", summary: first || summary, description: rest.join("\n").trim().replace(/([^\n])\n(?!\n)/g, "$1 "),
        curl: `curl ${method === "get" || data ? "" : `-X ${method.toUpperCase()} `}${location.origin}${filled}${data}`,
        parameters: parameters.map(({ name, in: where, schema = {}, description: meaning = "", required }) => ({
          name, meaning: where === "path" ? `${meaning} (in the path)`.trim() : meaning, type: kind(schema, whole),
          byDefault: schema.default ?? (required ? "must be given" : ""),
        })),
      };
    },
  },
};

const resolved = (schema, whole) => (schema?.$ref ? whole.components.schemas[schema.$ref.split("/").pop()] : schema);

function kind(schema, whole) {
  const found = resolved(schema, whole) ?? {};
  if (found.enum) return found.enum.join(", ");
  if (found.const !== undefined) return `${found.const}`;
  return (found.anyOf ?? [found]).map((each) => (each.anyOf || each.enum || each.$ref ? kind(each, whole) : each.type)).filter((type) => type !== "null").join(" or ");
}

function example(schema, whole) {
  const found = resolved(schema, whole);
  if (!found) return undefined;
  const fields = Object.entries(found.properties ?? {}).filter(([name, each]) => found.required?.includes(name) || each.examples?.[0]);
  return Object.fromEntries(fields.map(([name, each]) => [name, each.examples?.[0] ?? each.default ?? ""]).filter(([, value]) => value !== "" && value !== 0 && `${value}` !== ""));
}
