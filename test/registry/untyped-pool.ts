/** As much of a pool as bridges look at when they are made. */
export const pool = { connect: async () => null, on() {}, options: { max: 4 } };
