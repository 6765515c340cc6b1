// The search of the site runs in a worker, which browsers refuse to pages that are opened from a folder. There a hidden
// frame takes its place: the same script, the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<script>self.postMessage = said => parent.postMessage(said, '*')</script>";
      const script = Object.assign(document.createElement("script"), { src: url });
      frame.srcdoc += script.outerHTML;
      this.ready = new Promise((done) => frame.addEventListener("load", () => done(frame.contentWindow)));
      window.addEventListener("message", (event) => {
        if (event.source === frame.contentWindow) {
          const message = new MessageEvent("message", { data: event.data });
          this.dispatchEvent(message);
          this.onmessage?.(message);
        }
      });
      document.body.append(frame);
    }
    postMessage(said) {
      // from the frame to itself, so that its own listeners hear it
      this.ready.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data: said })));
    }
  };
}
