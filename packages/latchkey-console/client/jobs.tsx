/** Jobs that act on all matching entries, and their progress. They continue when the person leaves the page. */
import type { JobView } from "../src/wire.ts";
import { countText } from "./format.ts";
import { StateIcon } from "./parts.tsx";
import { jobs } from "./state.ts";

export function JobList() {
  return (
    <>
      {jobs.value.slice(0, 3).map((job) => (
        <Job key={job.id} job={job} />
      ))}
    </>
  );
}

function Job({ job }: { readonly job: JobView }) {
  const { total, done, refused, operator, reason, refusals, state } = job;
  const share = (count: number) => ({ "--w": `${total === 0 ? 0 : (count / total) * 100}%` });
  const left = total - done - refused;
  return (
    <div class="progress job after-head" role="status">
      <p>
        <b>
          {state === "finished" ? "Done" : "Running"}: {countText(done)} of {countText(total)}, started by{" "}
          {operator}.
        </b>{" "}
        <span class="quiet">
          “{reason}”{state === "running" && " It continues when you leave this page."}
        </span>
      </p>
      <div class="track" aria-hidden="true">
        <i class="done" style={share(done)} />
        <i class="again" style={share(refused)} />
      </div>
      <ul>
        <li>
          <StateIcon state="completed" />
          {countText(done)} done
        </li>
        {refused > 0 && (
          <li>
            <StateIcon state="failed" />
            {countText(refused)} refused
          </li>
        )}
        {left > 0 && <li class="faint">{countText(left)} remaining</li>}
      </ul>
      {refusals.length > 0 && (
        <ul class="why">
          {refusals.slice(0, 5).map(({ name, title, detail }) => (
            <li key={name}>
              <span>
                <span class="mono">{name}</span>: {title} {detail}
              </span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
