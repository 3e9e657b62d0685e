// The shared step of both inputs: store the file under a name of our own, have the metadata source
// read it, create the recording and its job.

const config = require(`${__hooks}/lib/config.js`)
const counters = require(`${__hooks}/lib/counters.js`)
const form = require(`${__hooks}/lib/form.js`)
const store = require(`${__hooks}/lib/store.js`)
const { Refusal, isFull, isOurDisk, statusOf } = require(`${__hooks}/lib/errors.js`)
const { wake } = require(`${__hooks}/lib/wake.js`)

/** The form's one file. 400 unless there is exactly one and it is `audio`; 413 over the limit. */
function upload(e) {
  store.takeYourTime(e, config.maxUploadMb() * 1024 * 1024)
  let files = []
  try {
    form.read(e)
    files = e.findUploadedFiles("audio")
  } catch (error) {
    if (statusOf(error) === 413 || isOurDisk(error)) {
      throw error
    }
    // Not multipart, cut off, or without the field: the sender's doing either way.
    throw new Refusal("bad_request", {
      ru: "нет записи в поле audio",
      en: "no recording in the field audio",
    })
  }
  const fields = Object.keys(e.request.multipartForm.file)
  if (files.length !== 1 || fields.length !== 1) {
    throw new Refusal("bad_request", {
      ru: "нужен ровно один файл в поле audio",
      en: "exactly one file is needed, in the field audio",
    })
  }
  if (files[0].size > config.maxUploadMb() * 1024 * 1024) {
    throw new Refusal("too_large") // within what the form's own lines may take
  }
  return files[0]
}

/** What a field that was refused has to be. */
const expected = {
  language: {
    ru: "нужен код языка по ISO 639-1, например ru или ru-RU",
    en: "an ISO 639-1 code is expected, such as ru or ru-RU",
  },
  vocabulary: { ru: "не более 2000 знаков", en: "at most 2,000 characters" },
  title: { ru: "не более 300 знаков", en: "at most 300 characters" },
  channels: { ru: "нужно mix или split", en: "mix or split is expected" },
}

function refuse(name) {
  throw new Refusal("bad_request", {
    ru: `негодное поле ${name} (${expected[name].ru})`,
    en: `bad field ${name} (${expected[name].en})`,
  })
}

/** The hints that the sender may add, checked. */
function hints(e) {
  const value = (name) => (e.request.formValue(name) || "").trim()
  const language = value("language").toLowerCase().replace("_", "-")
  if (language && !/^[a-z]{2,3}(-[a-z0-9]{2,8})?$/.test(language)) {
    refuse("language")
  }
  const vocabulary = value("vocabulary")
  if (vocabulary.length > 2000) {
    refuse("vocabulary")
  }
  const title = value("title")
  if (title.length > 300) {
    refuse("title")
  }
  const channels = value("channels").toLowerCase()
  if (channels && channels !== "mix" && channels !== "split") {
    refuse("channels")
  }
  return {
    language: language.split("-")[0], vocabulary: vocabulary, title: title, channels: channels,
  }
}

/** Ask the metadata source for the duration. It is asked outside any transaction. */
const probe = (key) => ask("probe", key)

/**
 * Have it all written through to the disk: a power cut takes nothing back that was accepted. Where
 * that cannot be had now, the system does it within half a minute, as with everything else.
 */
function keep(id, key) {
  try {
    ask("keep", key)
  } catch (error) {
    $app.logger().warn(
      "recording accepted, but not yet written through to the disk", "job_id", id,
      "reason", String(error.reason || error).split(key).join("<file>"),
    )
  }
}

function ask(what, key) {
  let answer
  try {
    answer = $http.send({
      url: `${config.mediaUrl()}/${what}`,
      method: "POST",
      headers: {
        authorization: `Bearer ${config.mediaSecret()}`,
        "content-type": "application/json",
      },
      body: JSON.stringify({ path: key }),
      timeout: 60, // seconds
    })
  } catch (error) {
    throw failure(`metadata source: not reachable: ${error}`)
  }
  if (answer.statusCode !== 200) {
    const reason = (answer.json && answer.json.error) || "no reason given"
    throw failure(`metadata source: answered ${answer.statusCode}: ${reason}`, answer.statusCode)
  }
  return answer.json
}

/** An internal error whose cause the log shall have. */
function failure(reason, answered = 0) {
  const error = new Error("internal")
  error.reason = reason
  error.probe = answered // what the metadata source answered, if it did
  return error
}

/**
 * Take a recording in. `origin` is {input, owner, chat_id, thread_id, message_id}.
 * Returns {job_id, status}. On any failure neither file nor record stays.
 */
function accept(e, file, hint, origin) {
  const extension = store.extensionOf(file.originalName)
  const id = $security.randomStringWithAlphabet(15, "abcdefghijklmnopqrstuvwxyz0123456789")
  const fileId = $security.randomStringWithAlphabet(20, "abcdefghijklmnopqrstuvwxyz0123456789")
  const name = `${fileId}.${extension}`
  const size = file.size
  let key
  try {
    key = store.put(file, id, name)
    const { duration } = probe(key)
    const hours = config.maxDurationHours()
    if (duration > hours * 3600) {
      throw new Refusal("too_large", { ru: `не дольше ${hours} ч`, en: `at most ${hours} h` })
    }
    $app.runInTransaction((tx) => {
      const recording = new Record(tx.findCollectionByNameOrId("recordings"))
      recording.set("id", id)
      recording.set("audio", name)
      recording.set("owner", origin.owner)
      recording.set("source", origin.input)
      recording.set("extension", extension)
      recording.set("size", size)
      recording.set("duration", duration)
      recording.set("title", hint.title)
      recording.set("language", hint.language)
      recording.set("vocabulary", hint.vocabulary)
      recording.set("channels", hint.channels || "")
      // The file is in its place already: PocketBase's check of file fields admits only new uploads.
      tx.saveNoValidate(recording)

      const job = new Record(tx.findCollectionByNameOrId("jobs"))
      job.set("id", id)
      job.set("recording", id)
      job.set("source", origin.input)
      job.set("state", "uploaded")
      job.set("milestone", "uploaded")
      job.set("chat_id", origin.chat_id || "")
      job.set("thread_id", origin.thread_id || "")
      job.set("message_id", origin.message_id || "")
      tx.save(job)
    })
  } catch (error) {
    clean(id)
    if (error.refusal || statusOf(error) === 413) {
      throw error
    }
    // No name of the file, stored or sent, may reach the log with the cause.
    const failed = failure(String(error.reason || error).split(name).join("<file>"), error.probe)
    failed.refusal = isFull(error) ? "no_space" : undefined
    throw failed
  }
  keep(id, key)
  $app
    .logger()
    .info(
      "recording accepted",
      "job_id", id,
      "file_id", fileId,
      "extension", extension,
      "size", size,
      "input", origin.input,
    )
  counters.accepted(origin.input, extension)
  wake("uploaded")
  return { job_id: id, status: "uploaded" }
}

function clean(id) {
  try {
    store.remove(id)
  } catch (error) {
    // The sweep takes it later; the sender's answer is about the first failure.
    $app.logger().warn("stored file of a refused recording stays", "job_id", id, "reason", String(error).split(id).join("<id>"))
  }
}

module.exports = { upload, hints, accept }
