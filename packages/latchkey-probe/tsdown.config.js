import { bundled } from "../../tsdown.base.js";

export default bundled(import.meta.dirname);
