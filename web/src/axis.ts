// Ticks at 1, 2 or 5 times a power of ten.

export interface Range {
  low: number;
  high: number;
}

export function ticks(range: Range, wanted: number, log: boolean, leastStep = 0): number[] {
  if (log) {
    const result: number[] = [];
    const decades = Math.log10(range.high / range.low);
    const steps = decades > 3 ? [1] : decades > 1 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9];
    for (let power = Math.floor(Math.log10(range.low)); power <= Math.log10(range.high); power++) {
      for (const step of steps) {
        const value = step * 10 ** power;
        if (value >= range.low && value <= range.high) result.push(value);
      }
    }
    if (result.length >= 2) return result;
  }
  const span = range.high - range.low;
  if (!(span > 0)) return [range.low];
  const rough = Math.max(leastStep, span / Math.max(1, wanted));
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= rough) ?? power * 10;
  const result: number[] = [];
  for (let i = Math.ceil(range.low / step - 1e-9); i * step <= range.high * (1 + 1e-12) + step * 1e-9; i++) {
    result.push(i * step);
    if (result.length > 50) break;
  }
  return result;
}

/** Enough digits to tell neighbouring ticks apart; thousands as k, M, G. */
export function tickText(value: number, all: number[]): string {
  const largest = Math.max(...all.map(Math.abs));
  const unit: [number, string] = largest >= 1e12 ? [1e12, "T"] : largest >= 1e9 ? [1e9, "G"] : largest >= 1e6 ? [1e6, "M"] : largest >= 1e4 ? [1e3, "k"] : [1, ""];
  const scaled = value / unit[0];
  const gap = all.length > 1 ? Math.min(...all.slice(1).map((t, i) => Math.abs(t - all[i]))) / unit[0] : Math.abs(scaled);
  const decimals = gap > 0 ? Math.max(0, Math.min(8, Math.ceil(-Math.log10(gap) - 1e-9))) : 2;
  if (scaled !== 0 && Math.abs(scaled) < 1e-6) return scaled.toExponential(1);
  return scaled.toFixed(decimals) + unit[1];
}

export function extent(values: Iterable<number>): Range | null {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? { low, high } : null;
}

/** A little room around the values; never empty. */
export function padded(range: Range, log: boolean): Range {
  if (log) return { low: range.low / 1.1, high: range.high * 1.1 };
  const span = range.high - range.low;
  const room = span > 0 ? span * 0.04 : Math.abs(range.low) * 0.05 || 0.5;
  return { low: range.low - room, high: range.high + room };
}
