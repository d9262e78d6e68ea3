package pages

import (
	"fmt"
	"math"
	"strconv"
)

// Surfaces on which the accent colour appears, see style.css.
const (
	lightSurface = "#ffffff"
	darkSurface  = "#191f29"
)

// readable is the least contrast of text (WCAG 2.2, 1.4.3 at level AA).
const readable = 4.5

// colour is an sRGB colour with channels from 0 to 1.
type colour [3]float64

// parseColour reads #rgb or #rrggbb.
func parseColour(s string) (colour, error) {
	if len(s) == 4 && s[0] == '#' {
		s = string([]byte{'#', s[1], s[1], s[2], s[2], s[3], s[3]})
	}
	n, err := strconv.ParseUint(s[min(1, len(s)):], 16, 24)
	if err != nil || len(s) != 7 || s[0] != '#' {
		return colour{}, fmt.Errorf(`%q is not a colour; expected one like "#1d5bb8"`, s)
	}
	return colour{float64(n>>16) / 255, float64(n>>8&0xff) / 255, float64(n&0xff) / 255}, nil
}

// CheckColour returns an error if s is not a colour that [Options] can have.
func CheckColour(s string) error {
	_, err := parseColour(s)
	return err
}

// String returns #rrggbb.
func (c colour) String() string {
	return fmt.Sprintf("#%02x%02x%02x", uint8(math.Round(c[0]*255)), uint8(math.Round(c[1]*255)),
		uint8(math.Round(c[2]*255)))
}

// luminance is the relative luminance of WCAG 2.2.
func (c colour) luminance() float64 {
	linear := func(v float64) float64 {
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c[0]) + 0.7152*linear(c[1]) + 0.0722*linear(c[2])
}

// contrast is the contrast ratio of WCAG 2.2.
func contrast(a, b colour) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// towards returns c moved to another colour by a share from 0 to 1.
func (c colour) towards(other colour, share float64) colour {
	for i := range c {
		c[i] += (other[i] - c[i]) * share
	}
	return c
}

var (
	black = colour{}
	white = colour{1, 1, 1}
)

// accents are an accent colour as one scheme uses it.
type accents struct{ accent, strong, on colour }

// accentsFor fits an accent colour to a surface, so that it is readable there: it
// moves the colour towards black or white, as little as is needed.
func accentsFor(c, surface colour) accents {
	away := black
	if surface.luminance() < 0.5 {
		away = white
	}
	fitted := c
	for step := 0.0; step <= 50; step++ {
		// Round as browsers do, so that the contrast is that of the colour shown.
		fitted, _ = parseColour(c.towards(away, step/50).String())
		if contrast(fitted, surface) >= readable {
			break
		}
	}
	a := accents{accent: fitted, strong: fitted.towards(away, 0.2), on: white}
	if contrast(a.on, fitted) < readable {
		a.on = black
	}
	return a
}

// accentRules returns the style rules that replace the accent colours.
func accentRules(accent string) (string, error) {
	if accent == "" {
		return "", nil
	}
	c, err := parseColour(accent)
	if err != nil {
		return "", err
	}
	rules := ""
	for _, scheme := range []struct{ surface, open, close string }{
		{lightSurface, "", ""},
		{darkSurface, "@media (prefers-color-scheme: dark) { ", " }"},
	} {
		surface, err := parseColour(scheme.surface)
		if err != nil {
			return "", err
		}
		a := accentsFor(c, surface)
		rules += fmt.Sprintf("%s:root { --accent: %s; --accent-strong: %s; --on-accent: %s; }%s\n",
			scheme.open, a.accent, a.strong, a.on, scheme.close)
	}
	return rules, nil
}
