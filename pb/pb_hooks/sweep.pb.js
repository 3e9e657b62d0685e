/// Every night: what crashes left behind is removed.

cronAdd("transcriberSweep", "17 3 * * *", () => {
  require(`${__hooks}/lib/sweep.js`).sweep()
})
