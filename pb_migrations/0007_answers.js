/// What senders are still to be told. An answer is written in the transaction that ends its job, so
/// that no crash in between loses it, and is claimed by lease by whoever can send it.
migrate(
  (app) => {
    const recordings = app.findCollectionByNameOrId("recordings")
    app.save(
      new Collection({
        type: "base",
        name: "answers",
        fields: [
          {
            type: "relation",
            name: "recording",
            collectionId: recordings.id,
            cascadeDelete: true,
            required: true,
          },
          // What made it: the token under which the job's end was written, so that an end written
          // twice is told once.
          { type: "text", name: "cause", max: 200, required: true },
          { type: "select", name: "kind", values: ["text", "failure"], required: true },
          {
            type: "select",
            name: "state",
            values: ["pending", "sent", "unsure", "undelivered"],
            required: true,
          },
          { type: "text", name: "reason", max: 200 },
          { type: "text", name: "chat_id", max: 64 },
          { type: "text", name: "thread_id", max: 64 },
          { type: "text", name: "message_id", max: 64 },
          // Its messages: begun is ahead of sent exactly while one is on its way.
          { type: "number", name: "begun" },
          { type: "number", name: "sent" },
          { type: "number", name: "unsure" },
          { type: "number", name: "attempts" },
          { type: "date", name: "failing_since" },
          { type: "text", name: "lease_token", max: 64 },
          { type: "date", name: "leased_at" },
          { type: "text", name: "leased_by", max: 200 },
          { type: "date", name: "not_before" },
          { type: "autodate", name: "created", onCreate: true },
          { type: "autodate", name: "updated", onCreate: true, onUpdate: true },
        ],
        indexes: [
          "CREATE UNIQUE INDEX idx_answers_cause ON answers (recording, cause)",
          "CREATE INDEX idx_answers_pending ON answers (chat_id) WHERE state = 'pending'",
          "CREATE INDEX idx_answers_leased_by ON answers (leased_by) WHERE leased_by <> ''",
        ],
      }),
    )
  },
  (app) => {
    app.delete(app.findCollectionByNameOrId("answers"))
  },
)
