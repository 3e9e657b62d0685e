// The JSON that a worker sends, looked at before anything is done with it: what is of another kind
// than the route takes is a refusal, and neither a fault of ours nor half of a write.

const { Refusal, statusOf } = require(`${__hooks}/lib/errors.js`)

const LONGEST = 400 * 86400 // seconds: a lease on the longest recording, and no pause comes near

const numbers = (value) =>
  Array.isArray(value) &&
  value.every((number) => typeof number === "number" && isFinite(number))

const kinds = {
  text: (value) => typeof value === "string",
  name: (value) => typeof value === "string" && value !== "",
  seconds: (value) => typeof value === "number" && value >= 0 && value <= LONGEST,
  count: (value) => typeof value === "number" && Number.isInteger(value) && value >= 0 && value < 2 ** 31,
  flag: (value) => typeof value === "boolean",
  list: (value) => Array.isArray(value),
  // Slices: [start, end] in seconds, and what their maker needs: the channel where each is read
  // apart, the seconds of voice, and at last where the channel's own voice is, as [[start, end], ...].
  slices: (value) =>
    Array.isArray(value) &&
    value.every(
      (each) =>
        Array.isArray(each) &&
        numbers(each.slice(0, 4)) &&
        each.length >= 2 &&
        each.length <= 5 &&
        (each.length < 5 || (Array.isArray(each[4]) && each[4].every(numbers))),
    ),
}

/** The value, if each field named is of its kind. A kind with a `?` may be missing, or null. */
function checked(value, fields) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new Refusal("bad_request")
  }
  for (const name in fields) {
    const optional = fields[name].endsWith("?")
    const missing = value[name] === undefined || value[name] === null
    const kind = kinds[optional ? fields[name].slice(0, -1) : fields[name]]
    if (missing ? !optional : !kind(value[name])) {
      throw new Refusal("bad_request")
    }
  }
  return value
}

/** The request's JSON. */
function read(e, fields) {
  let value
  try {
    value = e.requestInfo().body
  } catch (error) {
    throw statusOf(error) === 413 ? error : new Refusal("bad_request")
  }
  return checked(value, fields)
}

module.exports = { checked, read }
