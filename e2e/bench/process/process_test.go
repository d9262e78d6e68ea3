package process

import "testing"

func TestParseMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, field, text string
		want              int64 // 0: an error
	}{
		{"peak", PeakMemory, "Name:\tauthgate\nVmHWM:\t   16384 kB\nVmRSS:\t 8 kB\n", 16 << 20},
		{"present memory", PresentMemory, "Name:\tauthgate\nVmHWM:\t   16384 kB\nVmRSS:\t 8 kB\n", 8 << 10},
		{"no peak", PeakMemory, "VmRSS:\t 8 kB\n", 0},
		{"peak without a number", PeakMemory, "VmHWM:\t many kB\n", 0},
	} {
		if got, err := parseMemory(c.text, c.field); got != c.want || (err != nil) != (c.want == 0) {
			t.Errorf("%s: got %d, %v; want %d", c.name, got, err, c.want)
		}
	}
}
