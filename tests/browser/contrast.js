// Text whose contrast with what is behind it is below 4.5, by the styles that the browser computed (WCAG 2.2, 1.4.3).
const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
const luminance = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const ratio = (one, other) => {
  const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
};
const opaque = (colour) => colour.startsWith('rgb') && (channels(colour)[3] ?? 1) === 1;

const behind = (element) => {
  const svg = element.closest('svg');
  if (svg) {
    // What is painted before the text and holds its middle.
    const box = element.getBoundingClientRect();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    const shapes = [...svg.querySelectorAll('rect, text')];
    const below = shapes.slice(0, shapes.indexOf(element)).filter((shape) => {
      const area = shape.getBoundingClientRect();
      const holds = area.left <= x && x <= area.right && area.top <= y && y <= area.bottom;
      return shape.tagName === 'rect' && holds && opaque(getComputedStyle(shape).fill);
    });
    if (below.length) return getComputedStyle(below.at(-1)).fill;
  }
  for (let at = svg ?? element; at; at = at.parentElement) {
    if (opaque(getComputedStyle(at).backgroundColor)) return getComputedStyle(at).backgroundColor;
  }
  return 'rgb(255, 255, 255)';
};

const faults = [];
let seen = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || element.closest('title, desc, style') || !element.checkVisibility({ contentVisibilityAuto: true })) continue;
  seen += 1;
  const style = getComputedStyle(element);
  const [front, back] = [element.closest('svg') ? style.fill : style.color, behind(element)];
  const found = ratio(channels(front), channels(back));
  if (!(found >= 4.5)) faults.push(`${walker.currentNode.data.trim().slice(0, 40)}: ${front} on ${back}, ${found.toFixed(2)}`);
}
return { seen, faults };
