//go:build !linux

package process

import (
	"errors"
	"time"
)

func processTime(int) (time.Duration, error) { return 0, errors.New("processor times need Linux") }
