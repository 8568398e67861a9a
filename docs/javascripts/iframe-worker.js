// Search without a server. Browsers refuse workers to pages that were opened as files; a hidden frame does their work.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      this.inside = this.frame.contentWindow
      // What a worker calls: send a message out, and load more code.
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.inside.importScripts = (...more) => more.reduce((done, one) => done.then(() => this.load(one)), Promise.resolve())
      this.ready = this.load(address)
    }

    load(address) {
      return new Promise((resolve, reject) => {
        const script = this.inside.document.createElement("script")
        script.src = new URL(address, document.baseURI).href
        script.onload = resolve
        script.onerror = reject
        this.inside.document.body.append(script)
      })
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
