/// The queue: one row a recording, under the same id, apart from it, so that the owner's edits of a
/// recording and the queue's writes never share a row. Only superusers see it through the API.
migrate(
  (app) => {
    const recordings = app.findCollectionByNameOrId("recordings")
    const milestones = ["uploaded", "normalized", "submitted", "transcribed", "done"]

    app.save(
      new Collection({
        type: "base",
        name: "jobs",
        fields: [
          {
            type: "relation",
            name: "recording",
            collectionId: recordings.id,
            cascadeDelete: true,
            required: true,
          },
          { type: "select", name: "state", values: [...milestones, "failed", "dead"], required: true },
          // What is the owner's, and what the owner wants to read, stands first in the panel.
          { type: "number", name: "priority" },
          { type: "text", name: "note", max: 5000 },
          { type: "text", name: "error_text", max: 4000 },
          { type: "select", name: "milestone", values: milestones, required: true },
          { type: "number", name: "attempts" },
          { type: "text", name: "lease_token", max: 64 },
          { type: "date", name: "leased_at" },
          { type: "text", name: "leased_by", max: 200 },
          { type: "date", name: "not_before" },
          { type: "text", name: "operation", max: 200 },
          { type: "date", name: "submitted_at" },
          { type: "number", name: "sent_back" }, // times that the recogniser lost the operation
          // The token of the last result written, so that a result sent twice is known.
          { type: "text", name: "written_token", max: 64 },
          { type: "text", name: "chat_id", max: 64 },
          { type: "text", name: "thread_id", max: 64 },
          { type: "text", name: "message_id", max: 64 },
          { type: "autodate", name: "created", onCreate: true },
          { type: "autodate", name: "updated", onCreate: true, onUpdate: true },
        ],
        indexes: [
          "CREATE UNIQUE INDEX idx_jobs_recording ON jobs (recording)",
          // The claim's own order, so that finished rows cost it nothing.
          "CREATE INDEX idx_jobs_claim ON jobs (state, priority DESC, created, id)",
          "CREATE INDEX idx_jobs_leased_by ON jobs (leased_by) WHERE leased_by <> ''",
          "CREATE INDEX idx_jobs_operation ON jobs (operation) WHERE operation <> ''",
          // One message gives one recording, however often it is delivered.
          "CREATE UNIQUE INDEX idx_jobs_message ON jobs (chat_id, message_id) WHERE message_id <> ''",
        ],
      }),
    )
  },
  (app) => {
    app.delete(app.findCollectionByNameOrId("jobs"))
  },
)
