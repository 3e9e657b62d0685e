/// Telegram chats that the owner admits, in the panel.
migrate(
  (app) => {
    const workers = '@request.auth.collectionName = "workers"'
    app.save(
      new Collection({
        type: "base",
        name: "chats",
        listRule: workers,
        viewRule: workers,
        fields: [
          { type: "text", name: "chat_id", max: 64, required: true, pattern: "^-?[0-9]+$" },
          { type: "text", name: "note", max: 500 },
          { type: "bool", name: "admitted" },
          { type: "autodate", name: "created", onCreate: true },
          { type: "autodate", name: "updated", onCreate: true, onUpdate: true },
        ],
        indexes: ["CREATE UNIQUE INDEX idx_chats_chat_id ON chats (chat_id)"],
      }),
    )
  },
  (app) => {
    app.delete(app.findCollectionByNameOrId("chats"))
  },
)
