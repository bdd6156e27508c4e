/*
 * Search in pages that are opened as files. Browsers refuse workers to them, so the worker's script runs in a hidden
 * frame, and messages go to and fro. Served pages keep the browser's own Worker.
 */
if (location.protocol === "file:") {
    window.Worker = class extends EventTarget {
        constructor(url) {
            super();
            const frame = document.createElement("iframe");
            frame.hidden = true;
            document.body.append(frame);
            this.inside = frame.contentWindow;
            this.inside.document.open();
            this.inside.document.write(
                `<script>postMessage = (data) => parent.postMessage(data, "*");</script><script src="${url}"></script>`,
            );
            this.inside.document.close();
            this.ready = new Promise((resolve) => {
                this.inside.onload = resolve;
            });
            window.addEventListener("message", (event) => {
                if (event.source === this.inside) {
                    this.dispatchEvent(new MessageEvent("message", { data: event.data }));
                }
            });
        }

        postMessage(data) {
            const send = () => this.inside.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) }));
            this.ready.then(send);
        }
    };
}
