package main

import (
	"bytes"
	"fmt"
	"html"
)

// The measures of a picture, in pixels.
const (
	pictureWidth, barHeight, barGap = 760, 22, 10
	barsFrom, barsWidth             = 250, 430
)

// pictureHead has the colours. Viewers choose those of the dark scheme by themselves.
const pictureHead = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">
<style>
text { font: 14px system-ui, sans-serif; fill: #1f2328 }
.bar { fill: #8c959f } .own { fill: #2563eb } .floor { stroke: #8c959f; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .bar { fill: #6e7681 } .own { fill: #60a5fa } }
</style>
`

// draw returns the ratios to the floor as an SVG picture: a bar for each row, and a line where the floor is.
func draw(results []series) []byte {
	var rows []series
	most := 1.0
	for _, s := range results {
		if s.task.load != nil && s.other == "floor" {
			rows, most = append(rows, s), max(most, median(s, s.ratio))
		}
	}
	height := (barHeight+barGap)*len(rows) + barGap + 20
	var out bytes.Buffer
	fmt.Fprintf(&out, pictureHead, pictureWidth, height, "Processor time of a request, as a multiple of a bare proxy's")
	scale := float64(barsWidth) / most
	for i, s := range rows {
		ratio, y := median(s, s.ratio), barGap+i*(barHeight+barGap)
		class := "bar"
		if s.most > 0 {
			class = "own"
		}
		fmt.Fprintf(&out, `<text x="%d" y="%d" text-anchor="end">%s</text>`,
			barsFrom-8, y+16, html.EscapeString(s.subject))
		fmt.Fprintf(&out, `<rect class="%s" x="%d" y="%d" width="%.0f" height="%d" rx="3"/>`,
			class, barsFrom, y, ratio*scale, barHeight)
		fmt.Fprintf(&out, `<text x="%.0f" y="%d">%.2f</text>`+"\n", barsFrom+ratio*scale+6, y+16, ratio)
	}
	x := barsFrom + scale
	fmt.Fprintf(&out, `<line class="floor" x1="%.0f" x2="%.0f" y1="0" y2="%d"/>`, x, x, height-20)
	fmt.Fprintf(&out, `<text x="%.0f" y="%d" text-anchor="middle">1 = a bare proxy</text>`+"\n</svg>\n", x, height-4)
	return out.Bytes()
}
