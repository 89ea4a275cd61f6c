import { describe, expect, test } from "vitest";
import { looksLikeCredential } from "../execution/check-sent.ts";

/** Built here, because a scanner for leaked secrets would find them in a repository. */
const some = (length: number) => "a1B2c3D4e5F6".repeat(9).slice(0, length);
const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
const token = [part({ alg: "RS256", typ: "JWT" }), part({ sub: "1" }), some(43)].join(".");

describe("a credential", () => {
  test.each([
    "Bearer token-before",
    "bearer x",
    `Bearer ${token}`,
    ` Bearer  ${token} `,
    `Basic ${Buffer.from("user:password").toString("base64")}`,
    'Digest username="Mufasa", realm="x"',
    `Negotiate ${some(40)}==`,
    `DPoP ${token}`,
    `Token ${some(40)}`,
    `Token token="${some(20)}"`,
    `ApiKey ${some(32)}`,
    `AWS4-HMAC-SHA256 Credential=${some(20)}/20260101/eu/s3/aws4_request, SignedHeaders=host`,
    token,
    `${part({ alg: "none" })}.${part({})}.`,
    `${part({ alg: "dir", enc: "A256GCM" })}..${some(16)}.${some(20)}.${some(22)}`,
    `${Buffer.from('{ "alg": "HS256" }').toString("base64url")}.e30.${some(43)}`,
    `sk_live_${some(24)}`,
    `rk_test_${some(24)}`,
    `sk-proj-${some(40)}`,
    `ghp_${some(36)}`,
    `github_pat_${some(40)}`,
    `glpat-${some(20)}`,
    `xoxb-${some(24)}`,
    `AKIA${"A1B2".repeat(4)}`,
    `SG.${some(22)}.${some(43)}`,
  ])("is recognised by its form: %s", (text) => {
    expect(looksLikeCredential(text)).toMatch(/^an? [A-Z]/u);
  });

  test("does not appear in the text", () => {
    expect(looksLikeCredential("Bearer canary")).not.toContain("canary");
  });
});

test.each([
  "acme",
  "42",
  "(single)",
  "019b76da-a800-7000-8000-2b7d3c1e5f40",
  "acct_1032D82eZvKYlo2C",
  "org_a1b2c3d4e5f6a1b2c3d4e5f6",
  "cus_9s6XKzkNRiz8i3",
  "auth0|5f7c8ec7c33c6c004bbafe82",
  "google-oauth2|103547991597142817347",
  "shop.example.com",
  "eshop.example.com",
  "eu.west.1",
  "a.b.c",
  "jane@example.com",
  "arn:aws:iam::123456789012:user/jane",
  "Bearer",
  "Bearer of good news",
  "Basic Fit",
  "Basic",
  "Token Ring",
  "Digest Media Group",
  "OAuth Consulting",
  "Mac Repairs",
  "sk-8",
  "sk_live_demo",
  "npm_team",
  "ghp_1",
  "Skåne",
  "日本",
])("%s may be a tenant", (text) => {
  expect(looksLikeCredential(text)).toBeNull();
});
