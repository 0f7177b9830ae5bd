package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
)

// redisConn speaks to a Redis: one command, one answer. It is less than any client does,
// which favours the reference.
type redisConn struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

func dialRedis(address string) (*redisConn, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &redisConn{conn: c, in: bufio.NewReaderSize(c, 64<<10)}, nil
}

// do returns a string, an int64, nil or a []any of these. Only an error of Redis leaves
// the connection usable.
func (c *redisConn) do(args ...string) (any, error) {
	b := append(c.out[:0], '*')
	b = append(strconv.AppendInt(b, int64(len(args)), 10), "\r\n"...)
	for _, a := range args {
		b = append(b, '$')
		b = append(strconv.AppendInt(b, int64(len(a)), 10), "\r\n"...)
		b = append(append(b, a...), "\r\n"...)
	}
	c.out = b
	if _, err := c.conn.Write(b); err != nil {
		return nil, err
	}
	return c.read()
}

func (c *redisConn) read() (any, error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("redis says %q", line)
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return text, nil
	case '-':
		return nil, errors.New(text)
	case ':':
		return strconv.ParseInt(text, 10, 64)
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return nil, err
	case n < 0:
		return nil, nil //nolint:nilnil // Redis's own nil.
	case kind == '$':
		b := make([]byte, n+2)
		for read := 0; read < len(b); {
			m, err := c.in.Read(b[read:])
			if err != nil {
				return nil, err
			}
			read += m
		}
		return string(b[:n]), nil
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = c.read(); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("redis says %q", line)
}
