// Command seckill is a flash-sale server, and everything around it.
package main

import (
	"context"
	"os"

	"seckill/internal/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr, os.Environ()))
}
