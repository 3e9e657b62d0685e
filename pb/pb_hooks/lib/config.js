// What the service's settings say to the hooks. `worker/processes/pb.py` hands them over in the
// environment; the defaults here are those of `worker/settings.py`, for a bare `pocketbase serve`.

const number = (key, fallback) => {
  const value = parseFloat($os.getenv(key))
  return isNaN(value) ? fallback : value
}

module.exports = {
  locale: () => ($os.getenv("LOCALE") === "en" ? "en" : "ru"),
  maxUploadMb: () => number("MAX_UPLOAD_MB", 2048),
  maxDurationHours: () => number("MAX_DURATION_HOURS", 12),
  mediaUrl: () => $os.getenv("MEDIA_URL") || "http://127.0.0.1:9465",
  mediaSecret: () => $os.getenv("MEDIA_SECRET"),
  ownerEmail: () => $os.getenv("OWNER_EMAIL"),
  ownerPassword: () => $os.getenv("OWNER_PASSWORD"),
  workerPassword: () => $os.getenv("WORKER_PASSWORD"),
}
