// Names in boxes of a canvas, all in one font.

const widths = new Map();

// As much of a text as fits. Widths are summed letter by letter: measuring each label would take most of a frame.
export function cut(context, text, wide) {
  let [at, used] = [0, 0];
  for (; at < text.length && used <= wide; at += 1) used += letter(context, text[at]);
  if (used <= wide) return text;
  const room = wide - letter(context, "…");
  while (at > 0 && used > room) used -= letter(context, text[(at -= 1)]);
  return at < 2 ? "" : `${text.slice(0, at)}…`;
}

function letter(context, one) {
  let wide = widths.get(one);
  if (wide === undefined) widths.set(one, (wide = context.measureText(one).width));
  return wide;
}
