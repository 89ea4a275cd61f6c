import axios from "axios";
import axiosRetry, { isNetworkError } from "axios-retry";

const transient = [408, 409, 425, 429, 500, 502, 503, 504];

export const api = axios.create({ timeout: 10_000 });

axiosRetry(api, {
  // By itself it sends a POST again after a lost connection, but not after a time-out or a status.
  retryCondition: (error) =>
    isNetworkError(error) ||
    error.code === "ECONNABORTED" ||
    (error.response !== undefined && transient.includes(error.response.status)),
  // Waits as long as Retry-After says, where it is longer.
  retryDelay: axiosRetry.exponentialDelay,
  // Otherwise all attempts share one time-out.
  shouldResetTimeout: true,
});
