import { useData } from "vitepress";
import { defineComponent, h, onMounted, shallowRef, useId, watch } from "vue";

/** A diagram, drawn in the reader's browser. Until then, and without scripts, its source is shown. */
export const MermaidDiagram = defineComponent({
  props: { source: { type: String, required: true } },
  setup(props) {
    const { isDark } = useData();
    const id = `diagram-${useId()}`;
    const svg = shallowRef("");

    async function draw(): Promise<void> {
      // 600 kB, so only pages with diagrams load it.
      const { default: mermaid } = await import("mermaid");
      mermaid.initialize({
        startOnLoad: false,
        theme: isDark.value ? "dark" : "default",
        fontFamily: "inherit",
      });
      svg.value = (await mermaid.render(id, props.source)).svg;
    }

    onMounted(() => watch(isDark, draw, { immediate: true }));
    return () =>
      svg.value === ""
        ? h("pre", { class: "diagram" }, props.source)
        : h("div", { class: "diagram", innerHTML: svg.value });
  },
});
