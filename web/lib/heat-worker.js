// Reads a heatmap's JSON into one flat array, beside the page: ten thousand GPUs are 15 MB of it, and the page must not
// stand still while they are read. It is given bytes, for what it may fetch by itself is nothing.

// Rows of values as one array of `width` a row; NaN for what is not known.
function flattened(values) {
  const width = values[0]?.length ?? 0;
  const cells = new Float32Array(values.length * width);
  values.forEach((row, at) => {
    for (let x = 0, place = at * width; x < width; x += 1, place += 1) cells[place] = row[x] ?? NaN;
  });
  return { width, cells };
}

onmessage = ({ data: { id, bytes } }) => {
  const { columns: { values, ...columns }, ...head } = JSON.parse(new TextDecoder().decode(bytes));
  const { width, cells } = flattened(values);
  postMessage({ id, answer: { ...head, columns, width, cells } }, [cells.buffer]);
};
