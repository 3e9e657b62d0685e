// Counters of what PocketBase itself sees, in memory shared by all hooks. The `media` process puts
// them on the metrics page; a restart starts them at 0, as Prometheus expects of counters.

// The closed list of the intake document; anything else is shown as `other`.
const extensions = [
  "mp3", "wav", "ogg", "oga", "opus", "flac", "m4a", "aac", "wma", "mp4", "mkv", "mov", "avi",
  "webm", "audio",
]

const KEY = "transcriberCounters"

function count(name, labels) {
  const key = [name, ...labels].join("|")
  $app.store().setFunc(KEY, (old) => {
    const all = old ? JSON.parse(old) : {}
    all[key] = (all[key] || 0) + 1
    return JSON.stringify(all)
  })
}

const label = (extension) => {
  const lowered = extension.toLowerCase()
  return extensions.includes(lowered) ? lowered : "other"
}

module.exports = {
  accepted: (input, extension) => count("accepted", [input, label(extension)]),
  rejected: (input, code) => count("rejected", [input, code]),
  /** Every count so far, as {"name|label|label": n}. */
  all: () => JSON.parse($app.store().get(KEY) || "{}"),
}
