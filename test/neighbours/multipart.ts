/** Uploads as clients send them: each attempt of one may have a boundary of its own. */
import { newKey, send } from "../../packages/latchkey-conformance/src/http-conformance/client.ts";

export interface Upload {
  readonly key?: string;
  readonly boundary?: string;
  readonly note?: string;
  readonly file?: string;
  readonly filename?: string;
  /** Of the file's part; null: it has none. Default `text/plain`. */
  readonly type?: string | null;
}

export function sendUpload(url: string, upload: Upload = {}) {
  const { key = newKey(), boundary = "first", note = "x", file = "AAA", filename = "a.txt" } = upload;
  const { type = "text/plain" } = upload;
  const body = [
    `--${boundary}\r\nContent-Disposition: form-data; name="note"\r\n\r\n${note}\r\n`,
    `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${filename}"\r\n`,
    `${type === null ? "" : `Content-Type: ${type}\r\n`}\r\n${file}\r\n--${boundary}--\r\n`,
  ].join("");
  return send(url, { key, body, contentType: `multipart/form-data; boundary=${boundary}` });
}
