package backupfile

func init() { WorkFactor = 10 }
