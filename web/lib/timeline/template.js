// What the page of a timeline looks like.

const place = (event) => `
  <button type="button" class="wm-link" :title="${event}.name" @click="go(${event})">{{ shortOf(${event}) }}</button>
  <small> {{ length(${event}.duration_ns) }}</small>`;

const toolbar = `
  <div class="wm-tl-bar" role="toolbar" aria-label="Timeline">
    <b class="wm-tl-name" :title="capture">{{ capture || "no capture" }}</b>
    <select v-if="processes.length > 1" aria-label="Rank" :value="current" :title="about" @change="switchTo($event.target.value)">
      <option v-for="each in processes" :key="each.value" :value="each.value">{{ each.text }}</option>
    </select>
    <small v-if="about" class="wm-tl-about" :title="about">{{ about }}</small>
    <a v-if="capture" :href="address('/analyze', { capture })">Analyze</a>
    <span class="wm-tl-space"></span>
    <form role="search" class="wm-tl-search" @submit.prevent="search()">
      <input ref="q" v-model="q" type="search" placeholder="Search names ( / )" aria-label="Search names" @keydown.enter.exact.prevent="hits && hit !== null && hits.q === q ? next(1) : search()" @keydown.enter.shift.prevent="next(-1)" @keydown.escape="$refs.canvas.focus()" @search="q || search(false)">
      <button type="button" :aria-pressed="mode === 'regex'" title="Regular expression" aria-label="Regular expression" @click="mode = mode === 'regex' ? 'text' : 'regex'; search()">.*</button>
      <button type="button" :disabled="!hits || !hits.total" title="Hit before (N)" aria-label="Hit before" @click="next(-1)">◀</button>
      <button type="button" :disabled="!hits || !hits.total" title="Next hit (n)" aria-label="Next hit" @click="next(1)">▶</button>
      <small class="wm-tl-hits" aria-live="polite">{{ hitText }}</small>
    </form>
    <span class="wm-segments">
      <button type="button" title="Zoom in (W)" aria-label="Zoom in" @click="zoom(0.5)">+</button>
      <button type="button" title="Zoom out (S)" aria-label="Zoom out" @click="zoom(2)">−</button>
      <button type="button" title="The whole trace (0)" @click="fit">All</button>
    </span>
    <button type="button" :aria-pressed="!!table" title="What is in view, as a table" @click="flip">Table</button>
    <a v-if="stored" class="wm-tl-button" :href="stored.href" download :title="stored.name + ', ' + Math.ceil(stored.bytes / 1024).toLocaleString('en') + ' KiB'">Download</a>
    <button v-else type="button" disabled :title="noFile">Download</button>
    <button type="button" :disabled="!stored" aria-label="Open in Perfetto" :title="noFile || 'Opens ui.perfetto.dev in a new tab, and hands it the trace: from this browser, over no network'" @click="perfetto">Perfetto ↗</button>
    <button type="button" :aria-pressed="help" title="Keys (?)" aria-label="Keys" @click="help = !help">?</button>
  </div>`;

const keys = `
  <dl v-if="help" class="wm-facts wm-tl-help">
    <dt>W S, + −, wheel</dt><dd>zoom in and out, around the pointer</dd>
    <dt>A D, ← →, drag, Shift+wheel</dt><dd>go along</dd>
    <dt>↑ ↓, Alt+wheel</dt><dd>lanes above and below</dd>
    <dt>Enter, J K, I U</dt><dd>choose an event; the next and the one before; inwards and outwards</dd>
    <dt>L</dt><dd>go to what launched it, or to what it launched</dd>
    <dt>F, double click</dt><dd>look at it closely</dd>
    <dt>M, Shift+drag</dt><dd>mark its time, or a stretch</dd>
    <dt>0</dt><dd>the whole trace</dd>
    <dt>/ n N</dt><dd>search; next hit, hit before</dd>
    <dt>[ ]</dt><dd>the rank before, the next one</dd>
    <dt>Esc</dt><dd>let go</dd>
  </dl>`;

const body = `
  <div class="wm-tl-map-row"><span class="wm-tl-gutter">whole trace</span><canvas ref="map" class="wm-tl-map" aria-hidden="true"></canvas></div>
  <div ref="scroller" class="wm-tl-body" v-show="!table">
    <div class="wm-tl-labels" :style="{ height: tall + 'px' }">
      <div class="wm-tl-corner" :style="{ height: head + 'px' }"><span v-if="head > 25">Steps</span></div>
      <template v-for="row in rows" :key="row.group ?? row.lane.key">
        <button type="button" class="wm-tl-label" :class="{ 'wm-tl-group': row.group }" :style="{ top: row.y + head + 'px', height: row.height + 'px' }"
          :aria-expanded="!folded(row)" :title="(row.group ? row.title : row.lane.title + ', ' + row.lane.events.toLocaleString('en') + ' events') + ': fold or unfold'" @click="fold(row.group ?? row.lane.key)">
          <i aria-hidden="true">{{ folded(row) ? "▸" : "▾" }}</i><span>{{ row.group ? row.title : row.lane.title }}</span><small v-if="row.group">{{ row.count }}</small>
        </button>
      </template>
    </div>
    <div ref="stage" class="wm-tl-stage" :style="{ height: tall + 'px' }">
      <canvas ref="canvas" class="wm-tl-canvas" tabindex="0" role="application" aria-label="Timeline. W and S zoom, A and D go along, Enter chooses an event, J K I U go from event to event, question mark lists all keys. The button Table shows the same as a table."
        @keydown="key" @keyup="up" @blur="viewer && viewer.held.clear()"></canvas>
      <div v-if="tip" class="wm-tl-tip" :class="{ 'wm-tl-left': tip.left, 'wm-tl-up': tip.up }" :style="tip.style"><b>{{ tip.title }}</b><span>{{ tip.length }} · {{ tip.more }}</span><small>{{ tip.lane }}</small></div>
    </div>
  </div>
  <div v-if="table" class="wm-scroll wm-tl-table" tabindex="0" role="region" aria-label="Events in view">
    <p class="wm-muted">{{ table.total.toLocaleString("en") }} rectangles in view{{ table.total > table.rows.length ? ", the " + table.rows.length + " longest" : "" }}.</p>
    <table class="wm-table">
      <thead><tr><th scope="col">Lane</th><th scope="col">Name</th><th scope="col" class="wm-number">Start</th><th scope="col" class="wm-number">Duration</th><th scope="col" class="wm-number">Events</th><th scope="col" class="wm-number">Depth</th></tr></thead>
      <tbody><tr v-for="each in table.rows" :key="each.lane + '-' + each.depth + '-' + each.start_ns">
        <td>{{ each.lane_name }}</td><td><button type="button" class="wm-link wm-tl-long" @click="each.count > 1 ? viewer.show(each, true) : pick(each)">{{ each.text }}</button></td>
        <td class="wm-number">{{ moment(each.start_ns) }}</td><td class="wm-number">{{ length(each.duration_ns) }}</td><td class="wm-number">{{ each.count }}</td><td class="wm-number">{{ each.depth }}</td>
      </tr></tbody>
    </table>
  </div>
  <p class="wm-tl-foot"><small>{{ span }}</small></p>`;

const details = `
  <section v-if="event || merged || ranged" ref="details" class="wm-tl-details" tabindex="-1" aria-label="Details">
    <div v-if="merged" class="wm-tl-part">
      <h3>{{ merged.count.toLocaleString("en") }} events, too short to show one by one</h3>
      <p>{{ length(merged.duration_ns) }} from {{ moment(merged.start_ns) }}, something ran in {{ length(merged.busy_ns) }} of it; most of that was <span class="wm-mono">{{ merged.text }}</span>.</p>
      <button type="button" @click="viewer.show(merged, true)">Look closer (F)</button>
    </div>
    <template v-if="event">
      <div class="wm-tl-part">
        <h3 class="wm-tl-title">{{ event.event.name }}</h3>
        <dl class="wm-facts"><template v-for="[name, value] in facts" :key="name"><dt>{{ name }}</dt><dd>{{ value }}</dd></template></dl>
        <p class="wm-tools"><button type="button" @click="viewer.show(event.event, true)">Look closer</button><button type="button" @click="mark([event.event.start_ns, event.event.start_ns + event.event.duration_ns])">Mark its time</button><button type="button" @click="pick(null)">Close</button></p>
      </div>
      <div v-if="event.call || event.launched_by.length" class="wm-tl-part">
        <h3>Launched by</h3>
        <ol class="wm-tl-stack"><li v-for="(each, at) in event.launched_by" :key="at">${place("each")}</li><li v-if="event.call">${place("event.call")}</li></ol>
      </div>
      <p v-else-if="['kernel', 'memcpy', 'memset'].includes(event.event.kind)" class="wm-muted">What launched it is not in the trace.</p>
      <div v-if="event.around.length" class="wm-tl-part">
        <h3>Within</h3>
        <ol class="wm-tl-stack"><li v-for="(each, at) in event.around" :key="at">${place("each")}</li></ol>
      </div>
      <div v-if="event.launches.events" class="wm-tl-part">
        <h3>Launched {{ event.launches.events.toLocaleString("en") }} on the GPU <small>{{ length(event.launches.total_ns) }}</small></h3>
        <ol class="wm-tl-stack wm-tl-flat"><li v-for="(each, at) in event.launches.first.slice(0, 20)" :key="at">${place("each")}</li><li v-if="event.launches.events > 20"><small>and {{ (event.launches.events - 20).toLocaleString("en") }} more</small></li></ol>
      </div>
      <div v-if="event.paired.length" class="wm-tl-part">
        <h3>Forward and backward</h3>
        <ol class="wm-tl-stack wm-tl-flat"><li v-for="(each, at) in event.paired.slice(0, 10)" :key="at">${place("each")}</li></ol>
      </div>
      <div v-if="inputs.length || others.length" class="wm-tl-part">
        <h3>Arguments</h3>
        <dl class="wm-facts"><template v-for="[name, value] in others" :key="name"><dt>{{ name }}</dt><dd>{{ value }}</dd></template></dl>
        <div v-if="inputs.length" class="wm-scroll"><table class="wm-table wm-tl-inputs"><thead><tr><th scope="col">Input</th><th scope="col">Shape</th><th scope="col">Type</th><th scope="col">Value</th></tr></thead>
          <tbody><tr v-for="row in inputs" :key="row.at" :title="row.strides && 'Strides ' + row.strides"><td>{{ row.at }}</td><td>{{ row.dims }}</td><td>{{ row.type }}</td><td>{{ row.value }}</td></tr></tbody></table></div>
      </div>
      <div v-if="event.python.length" class="wm-tl-part">
        <h3>Python stack</h3>
        <ol class="wm-tl-stack wm-tl-flat"><li v-for="(each, at) in [...event.python].reverse()" :key="at">${place("each")}</li></ol>
      </div>
    </template>
    <template v-if="ranged">
      <div class="wm-tl-part">
        <h3>Marked: {{ length(ranged.span) }} <small>from {{ moment(range[0]) }}</small></h3>
        <table class="wm-table"><thead><tr><th scope="col">Lane</th><th scope="col" class="wm-number">Busy</th><th scope="col" class="wm-number">Share</th><th scope="col" class="wm-number">Events</th></tr></thead>
          <tbody><tr v-for="each in ranged.lanes" :key="each.lane.key"><td>{{ each.lane.title }}<small v-if="each.lane.sort === 'python'"> Python</small></td><td class="wm-number">{{ length(each.outer) }}</td><td class="wm-number">{{ percent(each.outer, ranged.span) }}</td><td class="wm-number">{{ each.count.toLocaleString("en") }}</td></tr></tbody></table>
        <p class="wm-tools"><button type="button" @click="viewer.look(range[0], range[1])">Look at it</button><button type="button" @click="mark(null)">Clear</button></p>
      </div>
      <div v-for="top in ranged.tops" :key="top.title" class="wm-tl-part">
        <h3>{{ top.title }} <small>most time first</small></h3>
        <table class="wm-table"><thead><tr><th scope="col">Name</th><th scope="col" class="wm-number">Time</th><th scope="col" class="wm-number">Events</th></tr></thead>
          <tbody><tr v-for="each in top.rows" :key="each.name"><td :title="each.name">{{ shortOf(each) }}</td><td class="wm-number">{{ length(each.total_ns) }}</td><td class="wm-number">{{ each.count.toLocaleString("en") }}</td></tr></tbody></table>
      </div>
    </template>
  </section>`;

export const template = `
  <section class="wm-panel wm-tl" :class="{ 'wm-busy': busy }" :aria-busy="busy" aria-label="Timeline">
    ${toolbar}
    <p v-if="error" role="alert" class="wm-error">{{ error }}</p>
    <p v-if="notice" role="alert" class="wm-error">{{ notice }} <button type="button" class="wm-link" @click="notice = ''">Dismiss</button></p>
    ${keys}${body}${details}
  </section>`;
