package backupfile

func init() { workFactor = 10 }
