// Tables as files, for a spreadsheet.

// A cell that begins like a formula would be one to a spreadsheet.
const cell = (value) => {
  let text = value === null || value === undefined ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value);
  if (typeof value === 'string' && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
  return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
};

export const csv = (columns, rows) => [columns.map((c) => c.key), ...rows.map((r) => columns.map((c) => r[c.key]))]
  .map((line) => line.map(cell).join(',')).join('\r\n') + '\r\n';

export function download(name, text) {
  const a = document.createElement('a');
  // The mark tells a spreadsheet that it is UTF-8.
  a.href = URL.createObjectURL(new Blob(['\ufeff' + text], { type: 'text/csv;charset=utf-8' }));
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
}
