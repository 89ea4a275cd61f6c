import OpenAI from "openai";

/** Retries a POST by itself: twice, after a lost connection, a time-out, 408, 409, 429 and every 5xx. */
export const openaiAt = (baseURL: string) => new OpenAI({ baseURL, apiKey: "anything" });
