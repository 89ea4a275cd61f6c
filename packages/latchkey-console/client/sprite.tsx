/** The symbols of states and controls, defined once for the whole page. */
export function Sprite() {
  return (
    <svg class="sprite" aria-hidden="true">
      <symbol id="s-pending" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="6" stroke-dasharray="2.6 2.1" />
      </symbol>
      <symbol id="s-in-progress" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="6" />
        <path class="solid" d="M8 4.6a3.4 3.4 0 0 1 0 6.8z" />
      </symbol>
      <symbol id="s-completed" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="6" />
        <path d="m5.4 8.2 1.8 1.8 3.4-3.8" />
      </symbol>
      <symbol id="s-failed" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="6" />
        <path d="m6 6 4 4m0-4-4 4" />
      </symbol>
      <symbol id="s-retryable" viewBox="0 0 16 16">
        <path d="M13.6 6.2A6 6 0 1 0 14 8.6M14.2 2.6v3.8h-3.8" />
      </symbol>
      <symbol id="s-unknown" viewBox="0 0 16 16">
        <path class="solid" d="M8 .2 15.8 8 8 15.8.2 8z" />
        <path class="knock" d="M6.3 6.4a1.75 1.75 0 1 1 2.6 1.5c-.6.4-.9.7-.9 1.3" />
        <circle class="dot" cx="8" cy="11.3" r="1" />
      </symbol>
      <symbol id="s-expired" viewBox="0 0 16 16">
        <path d="M3.6 14V6.6a4.4 4.4 0 0 1 8.8 0V14M2 14h12M6.4 7.6h3.2" />
      </symbol>
      <symbol id="s-dead" viewBox="0 0 16 16">
        <rect class="solid" x="1" y="1.5" width="14" height="13" rx="1.5" />
        <path class="knock" d="m5.3 5.3 5.4 5.4m0-5.4-5.4 5.4" />
      </symbol>
      <symbol id="i-late" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="6" />
        <path d="M8 4.8V8l2.2 1.6" />
      </symbol>
      <symbol id="i-copy" viewBox="0 0 12 12">
        <rect x="3.5" y="3.5" width="7" height="7" rx="1" />
        <path d="M1.5 8.5v-6a1 1 0 0 1 1-1h6" />
      </symbol>
      <symbol id="i-close" viewBox="0 0 16 16">
        <path d="m3.5 3.5 9 9m0-9-9 9" />
      </symbol>
      <symbol id="i-stop" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="6" />
        <path d="M8 4.8v3.8M8 11h.01" />
      </symbol>
      <symbol id="i-lock" viewBox="0 0 16 16">
        <rect x="3" y="7" width="10" height="7" rx="1" />
        <path d="M5.2 7V5a2.8 2.8 0 0 1 5.6 0v2" />
      </symbol>
      <symbol id="i-key" viewBox="0 0 18 18">
        <path
          d="M9 1a5 5 0 0 0-2 9.58V17h4v-1.6H9.6v-1.6H11v-3.22A5 5 0 0 0 9 1Zm0 3.2a1.8 1.8 0 1 1 0 3.6 1.8 1.8 0 0 1 0-3.6Z"
          fill-rule="evenodd"
        />
      </symbol>
    </svg>
  );
}
