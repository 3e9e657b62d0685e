// The rooms of this folder, each loaded once an engine needs it. A handler takes all that it needs from
// here at once: every `require` asks the file system for each folder of the path anew.

const rooms = [
  "answers", "body", "counters", "edits", "errors", "intake", "leftovers", "normalized", "operations",
  "queue", "status", "telegram", "transcripts", "wake",
]

const loaded = {}

for (const room of rooms) {
  Object.defineProperty(module.exports, room, {
    get: () => (loaded[room] ??= require(`${__hooks}/lib/${room}.js`)),
  })
}
