import { render } from "preact";
import { useEffect } from "preact/hooks";
import { readSession } from "./api.ts";
import { AuditPage } from "./audit.tsx";
import { DeadPage } from "./dead.tsx";
import { FindPage } from "./find.tsx";
import { listenToKeys } from "./keys.ts";
import { OverviewScreen } from "./overview.tsx";
import { Empty } from "./parts.tsx";
import { QueuePage } from "./queue.tsx";
import { RecordPage } from "./record.tsx";
import { Main, More, Shell } from "./shell.tsx";
import { SignIn } from "./sign-in.tsx";
import { Sprite } from "./sprite.tsx";
import { addressOf, outside, route, session } from "./state.ts";
import { TenantPage } from "./tenant.tsx";

function App() {
  useEffect(() => void readSession(), []);
  const who = session.value;
  return (
    <>
      <Sprite />
      {who === null ? (
        outside.value !== null && <Empty title={outside.value.title}>{<p>{outside.value.detail}</p>}</Empty>
      ) : who === "out" ? (
        <SignIn />
      ) : (
        <Shell who={who}>
          <Page />
        </Shell>
      )}
    </>
  );
}

function Page() {
  const { path } = route.value;
  const who = session.value;
  if (who === null || who === "out") return null;
  const id = /^record\/([0-9a-f-]{36})$/u.exec(path)?.[1];
  if (id !== undefined) return <RecordPage key={id} id={id} who={who} />;
  switch (path) {
    case "":
      return <OverviewScreen />;
    case "unknown":
      return <QueuePage state="unknown" who={who} />;
    case "pending":
      return <QueuePage state="pending" who={who} />;
    case "in-progress":
      return <QueuePage state="in_progress" who={who} />;
    case "retryable":
      return <QueuePage state="retryable" who={who} />;
    case "dead":
      return <DeadPage who={who} />;
    case "tenant":
      return <TenantPage who={who} />;
    case "audit":
      return <AuditPage />;
    case "records":
      return <FindPage />;
    case "more":
      return <More who={who} />;
    default:
      return (
        <Main>
          <Empty title="This page does not exist">
            <p>
              <a href={addressOf("")}>Go to the overview</a>
            </p>
          </Empty>
        </Main>
      );
  }
}

listenToKeys();
const root = document.getElementById("root");
if (root !== null) render(<App />, root);
