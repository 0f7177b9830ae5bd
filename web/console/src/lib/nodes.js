// What a node says of stock, queue and database: "ok", or what is wrong.

export const fine = (said) => !said || ['ok', 'ready', 'embedded'].includes(said);
